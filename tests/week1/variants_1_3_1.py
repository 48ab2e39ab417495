"""Known programs of task 1.3.1, causal mask."""

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
    question="Two new tokens join three older ones. Which key is the last that the second new token may see?",
)
known.change(
    "strict-diagonal",
    ("<= queries", "< queries"),
    fact="a query may not see its own position",
    question="What may the very first token look at?",
)
known.change(
    "one-too-many",
    ("<= queries", "<= queries + 1"),
    fact="a query sees one position of the future",
    question="With four queries and four keys, how many keys may the first query see?",
)
known.change(
    "inverted",
    ("0.0, -mx.inf", "-mx.inf, 0.0"),
    fact="the past is forbidden and the future allowed",
    question="Which of the two numbers, 0 and -inf, leaves a score as it is?",
)
known.change(
    "present-forbidden-too",
    ("<= queries", ">= queries"),
    fact="the past is forbidden, and the present and the future allowed",
    question="Read `j >= i` aloud. Does it describe what a query may see, or what it may not?",
)
known.change(
    "nothing-forbidden",
    ("-mx.inf", "0.0"),
    fact="every entry is 0, in the future too",
    question="Added to the scores, which number takes a key's whole weight away?",
)
known.change(
    "large-negative-number",
    ("-mx.inf", "-1e9"),
    fact="the future holds -1e9, which only float16 rounds to -inf",
    question="The docstring names the number that the future holds. Is -1e9 that number in float32?",
)
known.change(
    "smallest-finite-number",
    ("-mx.inf", "mx.finfo(dtype).min"),
    fact="the future holds the most negative finite number of the dtype",
    question="A query that may see nothing but such keys: are its weights zero?",
)
known.change(
    "ones-and-zeros",
    ("0.0, -mx.inf", "1.0, 0.0"),
    fact="the mask holds 1 where a query may look and 0 elsewhere",
    question="This mask is added to the scores. What do 1 and 0 do to them?",
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
    fact="the mask holds booleans, True where a query may look",
    question="Which dtype was asked for, and what happens to True when it is added to a score?",
)
known.change(
    "keys-by-queries",
    (".astype(dtype)", ".astype(dtype).T"),
    fact="the mask is S x L, one row for each key",
    question="The scores are L x S. Who has a row of its own: a query, or a key?",
)
known.change(
    "float32-result",
    (".astype(dtype)", ""),
    fact="the mask is float32 whatever `dtype` says",
    question="Which dtype should causal_mask(3, 5, mx.float16) have?",
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
    fact="the mask is L x L, whatever S is",
    question="How many keys has a query to choose from: L, or S?",
)
known.change(
    "boundary-as-an-index",
    ("<= queries", "<= mx.arange(L)[:, None] + L - S"),
    fact="the boundary is i + L - S instead of i + S - L",
    question="The last query stands at position S - 1. Which key is the last that your mask lets it see?",
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
