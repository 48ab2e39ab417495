"""Reference variants of task 1.7.1, repetition penalty."""

import mlx.core as mx
import numpy as np
from tiny_llm_solution.sampler import penalize_repetition

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.7.1")

USED = [[2, 0, 2, 2], [5], [1, 4, 3]]


@known.probe()
def penalty_rows(program):
    logits = normals(11)(3, 6, spread=2.0)
    return program(logits, USED, 1.5), logits


known.probe_table(
    no_tokens=lambda program: program(normals(12)(2, 5), [[], [1]], 1.3),
    below_one=lambda program: program(normals(14)(3, 6), USED, 0.5),
)
known.probe_table(mx.float16, half=lambda program: program(normals(13, mx.float16)(3, 6), USED, 1.5))


@known.sized("float32 logits 4 x 151,936, 256 tokens per row")
def sized(program):
    logits, tokens = normals(1)(4, 151936), [list(range(row, 151936, 600)) for row in range(4)]
    return lambda: program(logits, tokens, 1.1)


known.change(
    "always-divided",
    ("logits * penalty", "logits / penalty"),
    fact="negative logits are also divided by the penalty",
    question="Is a token with logit -1 more likely than one with -2, or less?",
)
known.change(
    "always-multiplied",
    ("logits / penalty", "logits * penalty"),
    fact="positive logits are also multiplied by the penalty",
    question="What does a logit of 2 become with a penalty of 1.5, and is that less likely?",
)
known.change(
    "signs-exchanged",
    ("logits > 0", "logits < 0"),
    fact="positive logits are multiplied by the penalty and negative ones divided",
    question="Should a used token become more likely?",
)
known.change(
    "below-one-is-off",
    ("mx.where(used,", "mx.where(used & (penalty > 1),"),
    fact="a penalty below 1 has no effect",
    question="What should a penalty of 0.5 do to a used token?",
)
known.change(
    "counted-in-row-0",
    ("used[row,", "used[0,"),
    fact="the tokens of all rows are assigned to the first row",
    question="Which row has used the tokens in tokens[1]?",
)
known.change(
    "subtracted",
    ("mx.where(logits > 0, logits / penalty, logits * penalty)", "logits - penalty"),
    fact="the penalty is subtracted",
    question="A penalty of 1 must change nothing. Does subtracting 1?",
)


@known.wrong(
    "once-per-occurrence",
    fact="a token is penalized again for each occurrence",
    question="A token was used three times. By what should its logit be divided?",
)
def once_per_occurrence(logits, tokens, penalty):
    for place in range(max(map(len, tokens))):
        logits = penalize_repetition(logits, [seen[place : place + 1] for seen in tokens], penalty)
    return logits


@known.wrong(
    "padded-with-token-0",
    fact="shorter rows of tokens are padded with 0, so that token 0 is penalized in them",
    question="Row 1 has fewer tokens than row 0. Which ids does your padding add to it?",
)
def padded_with_token_0(logits, tokens, penalty):
    longest = max(map(len, tokens))
    return penalize_repetition(logits, [[*seen, *[0] * (longest - len(seen))] for seen in tokens], penalty)


@known.wrong(
    "of-log-probabilities",
    fact="the logits are converted to log-probabilities first, none of which is positive",
    question="Which logits should differ after a penalty of 1?",
)
def of_log_probabilities(logits, tokens, penalty):
    numbers = logits.astype(mx.float32)
    numbers = numbers - mx.logsumexp(numbers, axis=-1, keepdims=True)
    return penalize_repetition(numbers, tokens, penalty).astype(logits.dtype)


known.change(
    "whole-batch",
    ("used[row, ", "used[:, "),
    fact="the tokens of any row are penalized in every row",
    question="Two requests share a batch. Should the tokens of one affect the other?",
)
known.change(
    "first-row",
    ("enumerate(tokens)", "enumerate([tokens[0]] * len(tokens))"),
    fact="the first row's tokens are penalized in every row",
    question="What does your code do with the tokens of the second row?",
)
known.change(
    "last-token",
    ("mx.array(seen)", "seen[-1]"),
    fact="only the last token of each row is penalized",
    question="Which tokens has a row used?",
)
known.change(
    "unused-penalized",
    ("mx.where(used, ", "mx.where(~used, "),
    fact="the unused tokens are penalized instead of the used ones",
    question="For which tokens is your condition true?",
)
known.change(
    "in-place",
    ("return mx.where(", "logits[...] = mx.where("),
    ("penalty), logits)", "penalty), logits)\nreturn logits"),
    fact="the penalized logits are written into the caller's array",
    question="Who else holds a reference to the array that you modify?",
)
known.change(
    "float32-result",
    ("logits / penalty", "logits / mx.array(penalty)"),
    fact="the result is float32 although the logits are not",
    question="Which of your factors is a float32 array?",
)
known.change(
    "empty-row-as-an-index",
    ("if seen:", "if True:"),
    fact="the empty token list of a row is used as indices",
    question="What is the dtype of an array made from an empty list?",
)
known.change(
    "only-the-likeliest",
    ("mx.where(used, ", "mx.where(used & (logits == mx.max(logits, axis=-1, keepdims=True)), "),
    fact="a used token is penalized only if it is the most likely of its row",
    question="A row has used tokens 3 and 5. Whose logits should change?",
)


@known.accepted("token-by-token")
def token_by_token(logits, tokens, penalty):
    numbers = np.array(logits.astype(mx.float32))
    for row, seen in zip(numbers, tokens, strict=True):
        for token in set(seen):
            row[token] *= penalty if row[token] < 0 else 1 / penalty
    return mx.array(numbers).astype(logits.dtype)


@known.accepted("gather-and-put-back")
def gather_and_put_back(logits, tokens, penalty):
    result = mx.array(logits)
    for row, seen in enumerate(tokens):
        if seen:
            old = logits[row, mx.array(seen)]
            result[row, mx.array(seen)] = mx.where(old < 0, old * penalty, old / penalty)
    return result
