"""Reference variants of task 2.7.3, flash attention in C++."""

import mlx.core as mx
from tests.week2.formulas_day7 import far_below_zero

from tiny_llm_course.testkit.inputs import drawn, normals
from tiny_llm_course.testkit.kernels import watched
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.7.3")


def attended(program, seed, heads, kv_heads, length, tokens, dims=8, scale=0.4):
    return program(*drawn(seed, (length, heads, dims), *[(kv_heads, tokens, dims)] * 2), scale)


known.probe_table(
    decode=lambda program: attended(program, 1, 4, 2, 1, 70),
    decode_of_blocks=lambda program: attended(program, 2, 4, 2, 1, 290),
    prefill=lambda program: attended(program, 3, 6, 2, 24, 24),
    prefill_of_blocks=lambda program: attended(program, 4, 4, 2, 50, 110),
    no_group=lambda program: attended(program, 5, 3, 3, 25, 25),
    one_head=lambda program: attended(program, 6, 1, 1, 5, 100),
    is_divided=lambda program: mx.array(
        [
            watched(program, *drawn(9, (length, 4, 8), *[(kv_heads, 96, 8)] * 2), 0.4).chunks > 1
            for kv_heads, length in ((4, 1), (1, 96))
        ]
    ),
    scale_of_one=lambda program: attended(program, 7, 4, 2, 24, 30, scale=1.0),
)


@known.probe()
def kernel_scores_far_below_zero(program):
    draw = normals(8)
    queries, keys = -20 - mx.abs(draw(3, 2, 8)), 1 + mx.abs(draw(1, 20, 8))
    return program(queries, keys, draw(1, 20, 8), 1.0)


@known.probe()
def kernel_hidden_keys(program):
    queries, keys, values = drawn(10, (30, 2, 8), (1, 30, 8), (1, 30, 8))
    return program(*far_below_zero(queries, keys), values, 1.0)


@known.probe()
def kernel_skips(program):
    """Return whether a prompt of three blocks of keys loads most of them for each block of queries."""
    one, all_blocks = (
        watched(program, *drawn(11, (length, 1, 4), (1, 288, 4), (1, 288, 4)), 0.4).loads[1][1] for length in (24, 288)
    )
    return mx.array(all_blocks > 0.8 * 12 * one)


known.change(
    "total-not-rescaled",
    ("total[r] = total[r] * kept + weigh", "total[r] = total[r] + weigh"),
    fact="the running sum of weights is not rescaled when the running maximum grows",
    question="Relative to which score are the weights whose sum is in `total`?",
)
known.change(
    "values-not-rescaled",
    ("for (int d = 0; d < dims; ++d) seen[r * dims + d] *= kept;", ""),
    fact="the accumulated values are not rescaled when the running maximum grows",
    question="Relative to which score are the weights that went into `seen`?",
)
known.change(
    "own-maximum-of-each-block",
    ("std::max(largest[r], highest_of(row, visible))", "highest_of(row, visible)"),
    ("std::exp(largest[r] - higher);", "1.0f;"),
    fact="each block's weights are relative to its own maximum, and are summed without rescaling",
    question="Two blocks have maxima of 1 and 9. What is the largest weight in each of them?",
)
known.change(
    "largest-from-zero",
    ("largest.begin(), largest.end(), -std::numeric_limits<float>::infinity()", "largest.begin(), largest.end(), 0.0f"),
    fact="the running maximum of a query starts at 0 instead of -infinity",
    question="All scores of a query are between -170 and -160. What is their maximum?",
)
known.change(
    "last-block-only",
    ("largest[r] = higher;", ""),
    fact="only the last block that a query sees counts, because the running maximum is not stored",
    question="What is `largest[r]` when the second block arrives?",
)
known.change(
    "rows-by-head",
    ("r / group + 1 - from", "r % (last - first) + 1 - from"),
    fact="row r sees as many keys as query r % count of a block of `count` queries, as if rows were head after head",
    question="Rows 0 and 1 are both heads of token 0 in a group of two. Which token does row 1 belong to in your code?",
)
known.change(
    "not-itself",
    ("r / group + 1 - from", "r / group - from"),
    fact="a query does not see its own key",
    question="Query 0 of a sequence of two tokens: how many keys does it see?",
)
known.change(
    "rows-as-queries",
    ("before + first + r / group + 1 - from", "before + first + r + 1 - from"),
    fact="row r sees as many keys as query r of the block",
    question="With two heads in a group, which query does row 3 belong to?",
)
known.change(
    "tile",
    ("head * group + row % group", "row % group * kv_heads + head"),
    fact="query head h reads key-value head h % kv_heads, a round-robin assignment",
    question="With four query heads and two key-value heads, which one should query head 1 read?",
)
known.change(
    "offset-ignored",
    ("before = tokens - length;", "before = 0;"),
    fact="query t sees keys 0 to t, as if there were no tokens before the first query",
    question="One query, 70 keys: how many of them may it see?",
)
known.change(
    "skipped-after-the-first-query",
    ("from < before + last;", "from <= before + first;"),
    fact="a block of keys is skipped if it begins after the first query of a block, although later queries see it",
    question="Queries 84 to 107 form a block. Which of them see key 96?",
)
known.change(
    "scale-twice",
    ("scale * queries[place(r) + d]", "scale * scale * queries[place(r) + d]"),
    fact="the scale is applied twice",
    question="How often is a score scaled if the queries are already scaled?",
)
known.change(
    "no-scale",
    ("scale * queries[place(r) + d]", "queries[place(r) + d]"),
    fact="the scale is missing",
    question="What is a score multiplied by before the softmax?",
)
known.change(
    "scores-left-as-weights",
    ("std::fill(row + visible, row + n, 0.0f);", ""),
    fact="the score of a masked key stays in place and is used as the weight of its value",
    question="What is in a row of `scores` after the keys that it sees when `gather_block` reads it?",
)
known.change(
    "one-table-for-all",
    ("std::vector<float> mine(most * dims), scores(most * KEYS), seen(most * dims), largest(most), total(most);", ""),
    ("const int most = QUERIES * group;", ""),
    (
        "pool().run(",
        "const int most = QUERIES * group;\n"
        "std::vector<float> mine(most * dims), scores(most * KEYS), seen(most * dims), largest(most), total(most);\n"
        "pool().run(",
    ),
    fact="all threads store their scores and sums in the same arrays",
    question="Two threads compute different blocks. Which scores does the next line of code read?",
)
known.change(
    "one-core",
    ("pool().run(kv_heads * blocks, 1,", "pool().run(kv_heads * blocks, kv_heads * blocks,"),
    fact="one core computes everything",
    question="How many chunks does `run` divide the work items into?",
)
known.change(
    "nothing-skipped",
    ("from < before + last; from += KEYS", "from < tokens; from += KEYS"),
    ("std::min(KEYS, before + last - from)", "std::min(KEYS, tokens - from)"),
    fact="blocks of keys that are masked for the whole block of queries are still loaded and multiplied",
    question="Queries 0 to 23 of a prompt of 288 tokens: which blocks of keys do they need?",
)
known.change(
    "hidden-at-minus-10000",
    ("std::fill(row + visible, row + n, 0.0f);", "std::fill(row + visible, row + n, -10000.0f);"),
    ("if (visible == 0) continue;", ""),
    ("highest_of(row, visible)", "highest_of(row, n)"),
    ("weigh(row, visible, higher)", "weigh(row, n, higher)"),
    fact="a hidden key has a score of -10,000, or another finite number, instead of -infinity",
    question="All visible scores of a query are -20,000. How large is the weight of a hidden key?",
)
known.change(
    "factor-inverted",
    ("std::exp(largest[r] - higher);", "std::exp(higher - largest[r]);"),
    fact="earlier weights are multiplied by exp(new maximum - old maximum)",
    question="The maximum grows from 1 to 9. Do the earlier weights, relative to it, grow or shrink?",
)
known.change(
    "last-block-too-long",
    ("last = std::min(length, first + QUERIES);", "last = first + QUERIES;"),
    fact="the last block of queries is treated as a full one",
    question="50 queries in blocks of 24: how many are in the last block?",
)
known.accepted_change(
    "head by head",
    ("head = i % kv_heads, first = i / kv_heads * QUERIES", "head = i / blocks, first = i % blocks * QUERIES"),
)


known.accepted_change(
    "infinities for masked keys",
    ("std::fill(row + visible, row + n, 0.0f);", "std::fill(row + visible, row + n, -INFINITY);"),
    ("if (visible == 0) continue;", ""),
    ("highest_of(row, visible)", "highest_of(row, n)"),
    ("weigh(row, visible, higher)", "weigh(row, n, higher)"),
    (
        "largest.begin(), largest.end(), -std::numeric_limits<float>::infinity()",
        "largest.begin(), largest.end(), std::numeric_limits<float>::lowest()",
    ),
)


@known.sized("256 tokens, 8 heads, 4 key-value heads of 64")
def timed(program):
    given = drawn(1, (256, 8, 64), (4, 256, 64), (4, 256, 64))
    return lambda: program(*given, 0.125)
