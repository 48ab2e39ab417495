"""Reference variants of task 1.3.1, causal mask."""

import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.3.1")


known.probe_table(
    square=lambda program: program(4, 4, mx.float32),
    fewer_queries=lambda program: (program(2, 5, mx.float32), program(1, 3, mx.float32)),
    refused=lambda program: program(3, 2, mx.float32),
)
known.probe_table(mx.float16, half=lambda program: (program(3, 5, mx.float16), program(3, 5, mx.bfloat16)))


@known.sized("L 2,048, S 2,048, float32")
def sized(program):
    return lambda: program(2048, 2048, mx.float32)


known.change(
    "upper-left",
    ("mx.arange(S - L, S)", "mx.arange(L)"),
    fact="query i sees the keys 0 to i, as if the queries were the first L of the S positions",
    question="Two new tokens follow three earlier ones. Which is the last key that the second new token may see?",
)
known.change(
    "strict-diagonal",
    ("<= queries", "< queries"),
    fact="a query cannot see its own position",
    question="Which keys may the very first token see?",
)
known.change(
    "one-too-many",
    ("<= queries", "<= queries + 1"),
    fact="a query sees one future position",
    question="With four queries and four keys, how many keys may the first query see?",
)
known.change(
    "inverted",
    ("0.0, -mx.inf", "-mx.inf, 0.0"),
    fact="the past is masked and the future is visible",
    question="Which of the two values, 0 and -inf, leaves a score unchanged?",
)
known.change(
    "present-forbidden-too",
    ("<= queries", ">= queries"),
    fact="the past is masked, and the present and future are visible",
    question="Read `j >= i` aloud. Does it describe what a query may see, or what it may not?",
)
known.change(
    "nothing-forbidden",
    ("-mx.inf", "0.0"),
    fact="every entry is 0, including the future",
    question="Which value, added to a score, makes the key's attention weight zero?",
)
known.change(
    "large-negative-number",
    ("-mx.inf", "-1e9"),
    fact="the future is -1e9, which is -inf only in float16",
    question="The docstring names the value for the future. Is -1e9 that value in float32?",
)
known.change(
    "smallest-finite-number",
    ("-mx.inf", "mx.finfo(dtype).min"),
    fact="the future is the most negative finite number of the dtype",
    question="If a query sees only such keys, are its attention weights zero?",
)
known.change(
    "ones-and-zeros",
    ("0.0, -mx.inf", "1.0, 0.0"),
    fact="the mask is 1 where a query may look and 0 elsewhere",
    question="This mask is added to the scores. What does adding 1 or 0 do?",
)
known.change(
    "zero-times-infinity",
    ("mx.where(mx.arange(S) <= queries, 0.0, -mx.inf)", "((mx.arange(S) > queries) * -mx.inf)"),
    fact="zeros are multiplied by -inf",
    question="What is 0 times infinity in floating point?",
)
known.change(
    "booleans",
    ("mx.where(mx.arange(S) <= queries, 0.0, -mx.inf).astype(dtype)", "mx.arange(S) <= queries"),
    fact="the mask is boolean, True where a query may look",
    question="Which dtype does the caller ask for, and what happens when True is added to a score?",
)
known.change(
    "keys-by-queries",
    (".astype(dtype)", ".astype(dtype).T"),
    fact="the mask is S x L, with one row per key",
    question="The scores are L x S. What does a row stand for: a query, or a key?",
)
known.change(
    "float32-result",
    (".astype(dtype)", ""),
    fact="the mask is always float32, and `dtype` is ignored",
    question="What should the dtype of causal_mask(3, 5, mx.float16) be?",
)
known.change(
    "not-refused",
    ("if L > S:", "if False:"),
    fact="more queries than keys are accepted",
    question="With L = 3 and S = 2, which key may the first query see?",
)
known.change(
    "square",
    ("mx.arange(S)", "mx.arange(L)"),
    ("mx.arange(S - L, S)", "mx.arange(L)"),
    fact="the mask is L x L, and S is ignored",
    question="How many keys are there for each query: L, or S?",
)
known.change(
    "boundary-as-an-index",
    ("<= queries", "<= mx.arange(L)[:, None] + L - S"),
    fact="the boundary is i + L - S instead of i + S - L",
    question="The last query is at position S - 1. Which is the last key that your mask lets it see?",
)
known.together("strict-diagonal", "inverted", makes="present-forbidden-too")
known.together("inverted", "present-forbidden-too", makes="strict-diagonal")
known.together("one-too-many", "present-forbidden-too", makes="inverted")


def refuse(L, S):
    if L > S:
        raise ValueError("too many queries")


@known.accepted("upper-triangle")
def upper_triangle(L, S, dtype):
    refuse(L, S)
    return mx.triu(mx.full((L, S), -mx.inf, dtype), k=S - L + 1)


@known.accepted("last-rows-of-the-whole")
def last_rows(L, S, dtype):
    refuse(L, S)
    rows = [[0.0 if j <= i else -mx.inf for j in range(S)] for i in range(S)]
    return mx.array(rows[S - L :], dtype=dtype)


@known.accepted("logarithm-of-a-triangle")
def logarithm(L, S, dtype):
    refuse(L, S)
    return mx.log(mx.tri(L, S, S - L)).astype(dtype)
