"""Reference variants of task 2.3.8, perplexity."""

import math

import mlx.core as mx
from tests.week2.packed import ContextModel, TableModel

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.3.8")

TEXTS = [[1, 2, 3, 4, 5, 6, 0], [3, 3], [5, 1, 6]]


def judged(program, texts, spread=2.0, seed=1, dtype=mx.float32, shift=0.0):
    table = (normals(seed, dtype)(7, 7) * spread + shift).astype(dtype)
    found = program(TableModel(table), texts)
    return mx.array(float(found))


known.probe_table(
    one_text=lambda program: judged(program, TEXTS[:1]),
    texts=lambda program: judged(program, TEXTS),
    short_ones=lambda program: judged(program, [[4], [1, 2, 3], []], seed=2),
    large=lambda program: judged(program, TEXTS, 20.0, 3, shift=500.0),
    impossible=lambda program: mx.array(program(TableModel(mx.array([[5000.0, 0.0], [5000.0, 0.0]])), [[0, 1, 1]])),
    # One loss of 120, and two of log 2.
    unlikely=lambda program: mx.array(program(TableModel(mx.array([[120.0, 0.0], [0.0, 0.0]])), [[0, 1, 1, 1]])),
    past_float32=lambda program: mx.array(
        math.log(program(TableModel(mx.array([[95.0, 0.0], [0.0, 0.0]])), [[0, 1]])) / 95
    ),
    from_one_text=lambda program: mx.array(float(program(ContextModel(normals(7)(7, 7) * 2), TEXTS))),
    is_a_float=lambda program: mx.array(isinstance(program(TableModel(normals(6)(7, 7)), TEXTS), float)),
    refuses=lambda program: refusals(
        lambda texts: program(TableModel(mx.zeros((7, 7))), texts), ([], [[3]], [[], [1]])
    ),
)
known.probe_table(mx.float16, half=lambda program: judged(program, [[1, 2, 3] * 60], 3.0, 4, mx.float16, 500.0))


@known.probe()
def perplexity_tokens_read(program):
    model = TableModel(normals(5)(7, 7))
    program(model, TEXTS)
    return mx.array(sum(map(len, model.seen)) > sum(map(len, TEXTS)))


@known.sized("4 texts of 512 tokens, V 512")
def sized(program):
    model = TableModel(normals(1)(512, 512))
    texts = [[(i * k) % 512 for i in range(512)] for k in (3, 5, 7, 11)]
    return lambda: program(model, texts)


known.change(
    "own-token",
    ("list(text[1:])", "list(text[:-1])"),
    fact="each position is scored on its own token instead of the next one",
    question="The logits at position 3 have seen tokens 0 to 3. Which token do they predict?",
)
known.change(
    "own-token-after-the-first",
    ("list(text[:-1])", "list(text)"),
    ("[0].astype(mx.float32)", "[0].astype(mx.float32)[1:]"),
    fact="the first position is left out, and every other one is scored on its own token",
    question="A text has 7 tokens. The logits of which positions predict the last 6 of them?",
)
known.change(
    "mean-of-means",
    (".append(mx.logsumexp(logits, axis=-1) - right)", ".append(mx.mean(mx.logsumexp(logits, axis=-1) - right)[None])"),
    fact="the loss is averaged per sequence first, and then over the sequences",
    question="One sequence has 2 tokens and another 30. How much does a token of each count?",
)  # fmt: skip
known.change(
    "mean-of-perplexities",
    ("(mx.logsumexp(logits, axis=-1) - right)", "(mx.exp(mx.mean(mx.logsumexp(logits, axis=-1) - right))[None])"),
    ("return math.exp(mean) if mean < 700 else math.inf", "return mean"),
    fact="the perplexities of the sequences are averaged",
    question="Which is averaged: losses, or perplexities?",
)  # fmt: skip
known.change(
    "exp-left-out",
    ("return math.exp(mean) if mean < 700 else math.inf", "return mean"),
    fact="the mean loss is returned without exp",
    question="If all V tokens are equally likely, what does your function return?",
)
known.change(
    "two-to-the-loss",
    ("math.exp(mean) if mean < 700 else math.inf", "2.0**mean if mean < 700 else math.inf"),
    fact="the loss uses the natural logarithm, and then 2 is raised to it",
    question="What is the base of the logarithm in logsumexp?",
)
known.change(
    "logits-as-losses",
    ("mx.logsumexp(logits, axis=-1) - right", "-right"),
    fact="the logits are treated as log-probabilities",
    question="What do exp of all logits of a row sum to?",
)
known.change(
    "log-of-softmax",
    ("mx.logsumexp(logits, axis=-1) - right", "-mx.log(mx.exp(right) / mx.sum(mx.exp(logits), axis=-1))"),
    fact="exp is applied to the raw logits, which overflows for large ones",
    question="What is exp(500) in float32?",
)
known.change(
    "log-of-stable-softmax",
    ("mx.logsumexp(logits, axis=-1) - right", "-mx.log(mx.exp(right - mx.logsumexp(logits, axis=-1)))"),
    fact="the logarithm is taken of a probability that has underflowed to 0",
    question="What is exp(-120) in float32, and what is its logarithm?",
)
known.change(
    "probabilities-averaged",
    (".append(mx.logsumexp(logits, axis=-1) - right)", ".append(mx.exp(right - mx.logsumexp(logits, axis=-1)))"),
    ("return math.exp(mean) if mean < 700 else math.inf", "return 1 / mean if mean else math.inf"),
    fact="the result is one over the mean probability",
    question="Which is averaged: the probabilities, or their logarithms?",
)  # fmt: skip
known.change(
    "in-half",
    ("[0].astype(mx.float32)", "[0]"),
    fact="the losses are computed in the dtype of the logits",
    question="The logits are float16. How many digits does a mean of 100 losses have in that dtype?",
)
known.change(
    "last-position-only",
    (", all_positions=True)", ")"),
    ("list(text[1:])", "list(text[-1:])"),
    fact="only the last token of each sequence is predicted",
    question="What does your model return without all_positions=True?",
)
known.change(
    "token-by-token",
    (
        "logits = model(mx.array([list(text[:-1])]), all_positions=True)[0].astype(mx.float32)",
        "logits = mx.concatenate([model(mx.array([list(text[: i + 1])]))[0] for i in range(len(text) - 1)])"
        ".astype(mx.float32)",
    ),
    fact="the whole prefix is recomputed for every token",
    question="A text has 100 tokens. How many does your model process?",
)
known.change(
    "overflow",
    ("math.exp(mean) if mean < 700 else math.inf", "math.exp(mean)"),
    fact="a finite mean loss above 709 raises OverflowError",
    question="What does math.exp(1000) do?",
)
known.change(
    "exp-in-float32",
    ("math.exp(mean) if mean < 700 else math.inf", "mx.exp(mx.array(mean)).item()"),
    fact="exp of the mean loss is computed in float32, which overflows above a loss of 88",
    question="The mean loss is 95. Which of float32 and a Python float can represent exp(95)?",
)
known.change(
    "nothing-is-certain",
    ('raise ValueError("no text has two tokens, so there is nothing to predict")', "return 1.0"),
    fact="the perplexity is 1 when nothing is predicted",
    question="No token was scored. Is the model certain of anything?",
)
known.change(
    "as-an-array",
    ("return math.exp(mean) if mean < 700 else math.inf", "return mx.exp(mx.array(mean))"),
    fact="an MLX array is returned",
    question="Which type does the docstring specify?",
)
MEAN = "float(mx.mean(mx.concatenate(losses)))"
known.change(
    "first-tokens-counted",
    (MEAN, "float(mx.sum(mx.concatenate(losses))) / sum(map(len, texts))"),
    fact="the sum of the losses is divided by the number of all tokens, the first of each sequence included",
    question="A sequence has 7 tokens. How many of them does the model predict?",
)
known.change(
    "divided-by-the-texts",
    (MEAN, "float(mx.sum(mx.concatenate(losses))) / len(losses)"),
    fact="the sum of the losses is divided by the number of sequences",
    question="Is your mean over sequences or over tokens?",
)
known.change(
    "texts-joined",
    ("losses = []", "texts = [[token for text in texts for token in text]]\nlosses = []"),
    fact="all texts are joined into one, and the first token of each is predicted from the text before it",
    question="What should a text's first token be predicted from?",
)
known.change(
    "texts-in-one-pass",
    ("losses = []", """joined = [token for text in texts if len(text) > 1 for token in text]
passed = model(mx.array([joined]), all_positions=True)[0] if joined else None
losses, at = [], 0"""),
    ("model(mx.array([list(text[:-1])]), all_positions=True)[0].astype(mx.float32)",
     "passed[at : at + len(text) - 1].astype(mx.float32)\nat += len(text)"),
    fact="the model gets all texts in one call, one after the other",
    question="Your model processes a text's first token. Which tokens does it see before this one?",
)  # fmt: skip
for epsilon in ("1e-8", "1e-9", "1e-10", "1e-12"):
    known.change(
        f"epsilon-of-{epsilon}",
        (
            "mx.logsumexp(logits, axis=-1) - right",
            f"-mx.log(mx.softmax(logits, -1)[mx.arange(len(right)), mx.array(text[1:])] + {epsilon})",
        ),
        fact=f"{epsilon} is added to each probability before its logarithm is taken",
        question="A token has a probability of exp(-120). What is the largest loss that your program can report?",
    )


@known.accepted("by-a-sum")
def by_a_sum(model, texts):
    total, count = 0.0, 0
    for text in texts:
        if len(text) > 1:
            logits = model(mx.array([list(text)]), None, True).astype(mx.float32)[0, :-1]
            likely = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
            total -= mx.sum(mx.take_along_axis(likely, mx.array(list(text)[1:])[:, None], axis=1)).item()
            count += len(text) - 1
    if count == 0:
        raise ValueError("nothing is predicted")
    try:
        return math.exp(total / count)
    except OverflowError:
        return math.inf
