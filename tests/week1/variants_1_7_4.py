"""Reference variants of task 1.7.4, min-p."""

import math

import mlx.core as mx
from tests.week1.filters import add_mistakes, log_rows

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.7.4")


RATIOS = [0.10, 0.42, 0.04, 0.25, 0.17, 0.02], [0.03, 0.08, 0.60, 0.01, 0.18, 0.10]


@known.probe()
def min_p_rows(program):
    logits = log_rows(*RATIOS)
    return program(logits, 0.15), program(logits, 0.5), logits


known.probe_table(
    p_positive=lambda program: program(log_rows(*RATIOS) + mx.array([[9.0], [2.0]]), 0.3),
    p_one_row=lambda program: program(log_rows(RATIOS[0]), 0.3),
    ends=lambda program: tuple(
        program(mx.array([[200.0, 1.0, -2.0, -90.0], [0.5, 0.5, -0.3, -0.4]]), p) for p in (0.0, 1.0)
    ),
)
known.probe_table(mx.float16, p_half=lambda program: program(log_rows(*RATIOS, dtype=mx.float16), 0.15))
known.probe_table(mx.float16, near=lambda program: program(mx.array([[1.0, 0.75]], mx.float16), 0.77896))


@known.sized("float32 logits 1 x 151,936, min-p 0.1")
def sized(program):
    logits = normals(1)(1, 151936, spread=3.0)
    return lambda: program(logits, 0.1)


known.written(
    "with a shortcut for min_p = 0",
    ("probabilities = softmax", "if min_p == 0:\n    return logits\nprobabilities = softmax"),
)
known.change(
    "logarithm-of-zero",
    ("return", "import math\nleast = math.log(min_p)\nreturn"),  # does not apply to the shortcut, which returns twice
    ("probabilities >= min_p * likeliest", "mx.log(probabilities / likeliest) >= least"),
    fact="the logarithm of min_p is computed, even of 0",
    question="min_p = 0 keeps all tokens. What is its logarithm?",
)
known.change(
    "against-one",
    ("min_p * likeliest", "min_p"),
    fact="the probabilities are compared with min_p itself",
    question="The most likely token has probability 0.1. What should min_p = 0.2 keep?",
)
known.change(
    "on-logits",
    ("softmax(logits.astype(mx.float32), axis=-1)", "logits"),
    fact="the logits are compared with min_p times the largest logit",
    question="What is min_p times a largest logit that is negative?",
)
known.change(
    "likeliest-of-the-batch",
    ("mx.max(probabilities, axis=-1, keepdims=True)", "mx.max(probabilities)"),
    fact="the threshold of every row comes from the most likely token of the whole batch",
    question="Which token is the most likely one of the second row?",
)
known.change(
    "softmax-over-the-batch",
    ("(mx.float32), axis=-1)", "(mx.float32), axis=None)"),
    ("mx.max(probabilities, axis=-1, keepdims=True)", "mx.max(probabilities)"),
    fact="both the softmax and the maximum run over the whole batch",
    question="What should the probabilities of one row sum to?",
)
known.change(
    "strictly-more",
    ("probabilities >= min_p", "probabilities > min_p"),
    fact="a token exactly min_p times as likely as the most likely one is dropped",
    question="What should min_p = 1 keep?",
)
known.change(
    "subtracted",
    ("min_p * likeliest", "likeliest - min_p"),
    fact="the threshold is the largest probability minus min_p",
    question="The most likely token has 0.4, and min_p is 0.5. What is half of 0.4?",
)
known.change(
    "one-minus-min-p",
    ("min_p * likeliest", "(1 - min_p) * likeliest"),
    fact="the tokens at least 1 - min_p times as likely as the most likely one are kept",
    question="Does a larger min_p keep more tokens, or fewer?",
)
known.change(
    "inverted",
    ("logits, -mx.inf)", "-mx.inf, logits)"),
    fact="the likely tokens are dropped and the unlikely ones kept",
    question="mx.where returns its second argument where the condition is true. Which one is that here?",
)
known.change(
    "half-probabilities",
    ("logits.astype(mx.float32)", "logits"),
    fact="the probabilities are computed in the logits' dtype",
    question="exp(-0.25) is 0.7788. What is it in bfloat16?",
)
add_mistakes(known, "probabilities = softmax")
known.change(
    "probabilities",
    ("return mx.where(", "return softmax(mx.where("),
    ("-mx.inf)", "-mx.inf), axis=-1)"),
    fact="probabilities are returned instead of logits",
    question="What does the next step take as its input?",
)
known.change(
    "float32-result",
    ("probabilities = ", "logits = logits.astype(mx.float32)\nprobabilities = "),
    fact="the result is float32 although the logits are not",
    question="Your probabilities may be float32. What should the dtype of the logits be?",
)
known.change(
    "likeliest-without-its-axis",
    ("mx.max(probabilities, axis=-1, keepdims=True)", "mx.max(probabilities, axis=-1)"),
    fact="the row maxima have lost the vocabulary axis and broadcast along it",
    question="There are N maxima and N x V probabilities. Which axis do the maxima broadcast along?",
)
known.change(
    "softmax-over-rows",
    ("(mx.float32), axis=-1)", "(mx.float32), axis=0)"),
    fact="the softmax runs over the batch instead of the vocabulary",
    question="Along which axis should the probabilities sum to one?",
)

known.change(
    "one-is-off",
    ("probabilities = softmax", "if min_p >= 1:\n    return logits\nprobabilities = softmax"),
    fact="min_p = 1 keeps all tokens",
    question="Which tokens are at least as likely as the most likely one?",
)


@known.accepted("in-logarithms")
def in_logarithms(logits, min_p):
    if min_p == 0:
        return logits
    return mx.where(logits - mx.max(logits, axis=-1, keepdims=True) >= math.log(min_p), logits, -mx.inf)


@known.accepted("ratios")
def ratios(logits, min_p):
    x = logits.astype(mx.float32)
    return mx.where(mx.exp(x - mx.max(x, axis=-1, keepdims=True)) >= min_p, logits, -mx.inf)
