"""Known programs of task 5.7.1, choices by likelihood."""

import mlx.core as mx
import numpy as np
from tests.week5.toy import CHOICES, PROMPT, TOY, Characters, table_of
from tiny_llm_solution.evaluation.choices import ChoiceScores

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.7.1")


def run(program, seed, prompt=PROMPT, choices=CHOICES, dtype=mx.float32):
    return tuple(program(TOY.logits(table_of(seed, dtype)), TOY.encode, prompt, choices))


known.probe_table(
    several=lambda program: run(program, 1),
    of_one_token=lambda program: run(program, 2, PROMPT, [" dog", " cat", " tail"]),
    one_choice=lambda program: run(program, 3, PROMPT, [" the dog"]),
    across_the_boundary=lambda program: run(program, 4, "the dog saw a b", ["oy", "ed", "at"]),
    after_a_space=lambda program: run(program, 5, "the dog saw a ", ["cat", "w", "ed the boy"]),
    a_space=lambda program: run(program, 9, PROMPT, [" ", "."]),
    two_bytes=lambda program: run(program, 6, PROMPT, [" é", " üü"]),
    refused=lambda program: refusals(
        lambda given: run(program, 7, *given),
        [(PROMPT, [" dog", ""]), (PROMPT, []), ("", CHOICES), ("b", ["oy", "ed"])],
    ),
)


@known.probe(mx.float16)
def half(program):
    """Logits in float16, of which the choices have several."""
    return run(program, 8, dtype=mx.float16)


@known.probe()
def half_exactly(program):
    """Return float32 scores of float16 logits."""
    return run(program, 10, dtype=mx.float16)


@known.sized("4 choices of 64 tokens after 64 tokens, V 2,048, float32")
def sized(program):
    toy = Characters(2048)
    ids = np.random.default_rng(1).integers(0, 1700, 320).tolist()
    table = table_of(1, size=2048)
    choices = [toy.text(ids[64 * i : 64 * (i + 1)]) for i in range(1, 5)]
    return lambda: list(program(toy.logits(table), toy.encode, toy.text(ids[:64]), choices))


ROWS = "[encode(prompt + choice)"
SHARED = "_common_prefix([encode(prompt), *rows])"
SCORES = "[0, shared - 1 : -1]"
TARGETS = "mx.array(row[shared:])"
SUM = "mx.sum(chosen - mx.logsumexp(scores, axis=-1))"
TOKENS = "mx.array([len(row) - shared for row in rows])"
SIZES = "len(choice.encode())"
known.change(
    "own-logits",
    (SCORES, "[0, shared:]"),
    fact="each token is scored by the logits at its own position, which predict the token after it",
    question="The logits at position 5 have seen token 5. Which token do they predict?",
)
known.change(
    "not-normalized",
    (SUM, "mx.sum(chosen)"),
    fact="the logits of the tokens are summed, not their log-probabilities",
    question="Add 10 to all logits. Does a probability change? And your score?",
)
known.change(
    "prompt-scored",
    (SHARED, "1"),
    fact="the tokens of the prompt are scored as well, all but the first",
    question="The prompt has 20 tokens and the choice one. What is most of your score per token?",
)
known.change(
    "choice-tokenized-alone",
    (ROWS, "[encode(prompt) + encode(choice)"),
    fact="prompt and choice are tokenized apart, so no token spans the boundary",
    question='If " boy" is one token, which tokens has "a b" + "oy" in training? And in your row?',
)
known.change(
    "context-is-the-prompt",
    (SHARED, "len(encode(prompt))"),
    fact="a token that spans the boundary counts as context: the context has as many tokens as the prompt alone",
    question="The whole row begins with other tokens than the prompt alone. Where does the choice begin?",
)
known.change(
    "context-of-each",
    ("for row in rows:\n", "for row in rows:\n    shared = _common_prefix([encode(prompt), row])\n"),
    (TOKENS, "mx.array([len(row) - _common_prefix([encode(prompt), row]) for row in rows])"),
    fact="each choice has its own context, so that one choice is scored on a part of the prompt and another is not",
    question="One choice must also predict the last letter of the prompt. Can its sum be compared with the others?",
)
known.change(
    "context-beyond-the-prompt",
    (SHARED, "_common_prefix(rows)"),
    fact="the context is all that the rows with a choice have in common, even beyond the prompt",
    question="Both choices begin with the same word. Is that word given, or does the model have to predict it?",
)
known.change(
    "first-token-left-out",
    (SCORES, "[0, shared:-1]"),
    (TARGETS, "mx.array(row[shared + 1 :])"),
    fact="the first token of each choice is not scored",
    question="The last position of the prompt predicts a token. Which?",
)
known.change(
    "mean-as-total",
    (SUM, "mx.mean(chosen - mx.logsumexp(scores, axis=-1))"),
    fact="the total is the mean over the tokens instead of the sum",
    question="What is the log of a product of three probabilities?",
)
known.change(
    "tokens-of-the-choice-alone",
    (TOKENS, "mx.array([len(encode(choice)) for choice in choices])"),
    fact="per_token divides by the number of tokens that a choice has when it is encoded alone",
    question='"a b" + "oy" ends with the token " boy". Over how many tokens is the sum? And "oy" alone?',
)
known.change(
    "characters",
    (SIZES, "len(choice)"),
    fact="per_byte divides by the number of characters",
    question="How many bytes has é in UTF-8?",
)
known.change(
    "bytes-without-the-space",
    (SIZES, "len(choice.strip().encode())"),
    fact="per_byte does not count the leading space",
    question="Does the model have to predict the space?",
)
known.change(
    "white-space-refused",
    ('if "" in choices:', "if not all(choice.strip() for choice in choices):"),
    fact="a choice of white space alone is refused as if it were empty",
    question="How many tokens, and how many bytes, has a choice that is one space?",
)
known.change(
    "integers",
    ("total = mx.stack(sums)", "total = mx.stack(sums).astype(mx.int32)"),
    fact="the totals are converted to integers",
    question="Two choices have the totals -3.2 and -3.9. Which is better, and how do you tell afterwards?",
)
known.change(
    "half-log-probabilities",
    (".astype(mx.float32)  # T x V", "  # T x V"),
    (SUM, "mx.sum((chosen - mx.logsumexp(scores, axis=-1)).astype(mx.float32))"),
    fact="each log-probability is computed in the dtype of the logits, and only their sum in float32",
    question="A float16 near -7 is a multiple of 1/256. How far may a sum of 300 of them be off?",
)
known.change(
    "half-precision",
    (".astype(mx.float32)  # T x V", "  # T x V"),
    fact="log-probabilities are computed and summed in the dtype of the logits",
    question="How many digits has a float16 sum of about -300?",
)


@known.accepted("token by token, in Python floats")
def in_python(logits, encode, prompt, choices):
    if not len(choices) or any(not choice for choice in choices):
        raise ValueError(f"choice {[*choices, ''].index('')} is empty")
    rows = [encode(prompt + choice) for choice in choices]
    shared, plain = 0, encode(prompt)
    while shared < len(plain) and all(shared < len(row) and row[shared] == plain[shared] for row in rows):
        shared += 1
    if shared == 0:
        raise ValueError("there is no context")
    totals = []
    for row in rows:
        scores = np.array(logits(mx.array([row]))[0].astype(mx.float32), dtype=np.float64)
        largest = scores.max(axis=-1, keepdims=True)
        logs = scores - largest - np.log(np.exp(scores - largest).sum(axis=-1, keepdims=True))
        totals.append(sum(float(logs[i - 1, row[i]]) for i in range(shared, len(row))))
    per_token = [t / (len(row) - shared) for t, row in zip(totals, rows, strict=True)]
    per_byte = [t / len(choice.encode("utf-8")) for t, choice in zip(totals, choices, strict=True)]
    return ChoiceScores(mx.array(totals), mx.array(per_token), mx.array(per_byte))


known.accepted_change(
    "softmax of all positions",
    (
        "logits(mx.array([row]))[0, shared - 1 : -1].astype(mx.float32)",
        "logits(mx.array([row]))[0].astype(mx.float32)[shared - 1 : len(row) - 1]",
    ),
)
known.written(
    "log-softmax of all positions",
    ("[0, shared - 1 : -1].astype(mx.float32)", "[0].astype(mx.float32)"),
    (
        "mx.take_along_axis(scores,",
        "mx.take_along_axis((scores - mx.logsumexp(scores, axis=-1, keepdims=True))[shared - 1 : -1],",
    ),
    (SUM, "mx.sum(chosen)"),
)
