"""Known programs of task 3.4.3, attention of a prompt over pages, in C++."""

import mlx.core as mx
from tests.week3.formulas_day4 import pooled

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import watched
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.4.3")


def attended(program, seed, length, tokens, page, heads=4, kv_heads=2, scale=0.4, spare=0):
    keys, values, table = pooled(seed, tokens, page, kv_heads, spare=spare)
    return program(normals(seed + 2)(length, heads, 8), keys, values, table, tokens, scale)


known.probe_table(
    decode=lambda program: attended(program, 1, 1, 70, 16),
    decode_of_blocks=lambda program: attended(program, 2, 1, 290, 16),
    # A tile starts within a page.
    odd_pages=lambda program: attended(program, 3, 1, 150, 20),
    one_page=lambda program: attended(program, 4, 3, 20, 32),
    long_page=lambda program: attended(program, 5, 1, 180, 200),
    prefill=lambda program: attended(program, 6, 24, 24, 8),
    prefill_of_blocks=lambda program: attended(program, 7, 50, 110, 16),
    no_group=lambda program: attended(program, 8, 25, 25, 8, 3, 3),
    one_head=lambda program: attended(program, 9, 5, 60, 16, 1, 1),
    pages_of_one=lambda program: attended(program, 10, 1, 10, 1, 2, 1),
    scale_of_one=lambda program: attended(program, 11, 24, 30, 16, scale=1.0),
)


@known.probe()
def flash_first_page(program):
    """Page 0 of the pool is the request's only one."""
    keys, values, _ = pooled(12, 12, 12, 1)
    return program(normals(14)(3, 2, 8), keys, values, [0], 12, 0.4)


@known.probe()
def flash_scores_far_below_zero(program):
    keys, values, table = pooled(15, 20, 8, 1)
    return program(-20 - mx.abs(normals(17)(3, 2, 8)), 1 + mx.abs(keys), values, table, 20, 1.0)


def calls(program, length, tokens, heads, kv_heads, dims):
    """Return the library after a call, which has counted chunks and loads."""
    keys, values, table = pooled(18, tokens, 16, kv_heads, dims)
    return watched(program, normals(20)(length, heads, dims), keys, values, table, tokens, 0.4)


@known.probe()
def flash_is_divided(program):
    return mx.array([calls(program, *sizes, 8).chunks > 1 for sizes in ((1, 96, 4, 4), (96, 96, 4, 1))])


@known.probe()
def flash_skips(program):
    """Return whether a prompt of three blocks of keys loads most of them for each block of queries."""
    one, all_blocks = (calls(program, length, 288, 1, 1, 4).loads[1][1] for length in (24, 288))
    return mx.array(all_blocks > 0.8 * 12 * one)


ROW = "(int64_t(table[s / page]) * kv_heads + head) * page + in_page"
PLACES = "std::vector<int64_t> places(KEYS);"

known.written("blocks of 24 queries", ("each = (length + blocks - 1) / blocks", "each = QUERIES"))
known.change(
    "table-ignored",
    ("table[s / page]", "s / page"),
    fact="the first pages of the pool are read in pool order, not those of the block table",
    question="With the block table [6, 1, 3], where is token 0?",
)
known.change(
    "page-without-heads",
    (ROW, "(int64_t(table[s / page]) + head) * page + in_page"),
    fact="the stride between pages is page_size * dims, as if there were one KV head",
    question="How many numbers does a page hold, over all its heads?",
)
known.change(
    "head-0-of-the-page",
    (ROW, "int64_t(table[s / page]) * kv_heads * page + in_page"),
    fact="all heads use the keys and values of KV head 0",
    question="What comes before KV head 1 within a page?",
)
known.change(
    "head-by-head",
    (ROW, "int64_t(table[s / page]) * kv_heads * page + head + in_page"),
    fact="KV head h starts h tokens after the start of its page",
    question="A page is kv_heads x page_size x dims. How far apart do two of its heads start?",
)
known.change(
    "block-at-a-page's-beginning",
    ("in_page = s % page", "in_page = 0"),
    fact="each tile of keys is assumed to start at a page boundary",
    question="Pages of 20 and tiles of 96: what is the offset within its page of the second tile's first key?",
)
known.change(
    "each-block-from-the-start",
    ("s = from + k", "s = k"),
    fact="the keys of every tile are looked up as if it were the first tile",
    question="The second tile starts at token 96. Which entry of the block table is that, with pages of 16?",
)
known.change(
    "over-the-page's-end",
    ("j < page - in_page && k < n", "j < page && k < n"),
    fact="a copy that starts inside a page reads a whole page length, past the page's end",
    question="Token s is at offset s % page_size. How many tokens of its page are left, including itself?",
)
known.change(
    "one-page-for-a-block",
    ("j < page - in_page && k < n", "k < n"),
    fact="all keys of a tile are read contiguously from the first one's page on",
    question="What follows a page in the pool, and whose is it?",
)
known.change(
    "keys-in-place-of-values",
    ("gather_block(scores.data(), rows, values,", "gather_block(scores.data(), rows, keys,"),
    fact="keys are summed instead of values",
    question="Which of the two is multiplied by an attention weight?",
)
known.change(
    "total-not-rescaled",
    ("total[r] = total[r] * kept + weigh", "total[r] = total[r] + weigh"),
    fact="the running sum of weights is not rescaled when the maximum score grows",
    question="Relative to which score are the weights in `total`?",
)
known.change(
    "total-rescaled-with-the-new-weights",
    (
        "total[r] = total[r] * kept + weigh(own, visible, higher);",
        "total[r] = (total[r] + weigh(own, visible, higher)) * kept;",
    ),
    fact="a tile's own weights are rescaled with the running sum, although they are relative to the new maximum",
    question="Relative to which maximum does `weigh` compute a tile's weights: the one before the tile, or after it?",
)
known.change(
    "values-not-rescaled",
    ("for (int d = 0; d < dims; ++d) seen[r * dims + d] *= kept;", ""),
    fact="the running sum of weighted values is not rescaled when the maximum score grows",
    question="Relative to which score are the weights of the values in `seen`?",
)
known.change(
    "largest-from-zero",
    ("largest.end(), -std::numeric_limits<float>::infinity()", "largest.end(), 0.0f"),
    fact="the running maximum starts at 0, so it is never negative",
    question="All scores of a query lie between -170 and -160. Which one is the maximum?",
)
known.change(
    "last-block-only",
    ("largest[r] = higher;", ""),
    fact="the running maximum is not stored, so only the last visible tile counts",
    question="What is `largest[r]` when the second tile comes?",
)
known.change(
    "next-key-too",
    ("r / group + 1 - from", "r / group + 2 - from"),
    fact="each query also attends to the key after its own if its tile has it",
    question="Query 0 of a sequence of two tokens: how many keys does it attend to?",
)
known.change(
    "not-itself",
    ("r / group + 1 - from", "r / group - from"),
    fact="a query does not attend to its own key",
    question="Query 0 of a sequence of two tokens: how many keys does it attend to?",
)
known.change(
    "hidden-scores-weigh",
    ("std::fill(own + visible, own + n, 0.0f);", ""),
    fact="raw scores of masked keys remain as the weights of their values",
    question="A query sees 3 keys of a tile of 8. By what are the other five values multiplied?",
)
known.change(
    "hidden-tile-weighs",
    ("std::fill(own + visible, own + n, 0.0f);", "if (visible > 0) std::fill(own + visible, own + n, 0.0f);"),
    fact="for a query that sees no key of a tile, the raw scores of that tile remain as the weights of its values",
    question="Query 0 of a block sees no key of the last tile. What is in its row of scores when they are gathered?",
)
known.change(
    "offset-ignored",
    ("before = tokens - length;", "before = 0;"),
    fact="query t attends to keys 0 to t, as if none were cached before the first query",
    question="One query, 70 keys: how many of them may it attend to?",
)
known.change(
    "tile",
    ("head * group + row % group", "row % group * kv_heads + head"),
    fact="query head h uses KV head h % kv_heads",
    question="With four query heads and two KV heads, which one should query head 1 use?",
)
known.change(
    "rows-head-after-head",
    ("r / group + 1 - from", "r % (last - first) + 1 - from"),
    fact="the causal limit takes the rows of a tile as ordered by head, not by token",
    question="With two heads per KV head, which token is row 1 of a tile?",
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
    "one-list-for-all",
    (PLACES, ""),
    ("pool().run(", f"{PLACES}\npool().run("),
    fact="all threads share one list of key addresses",
    question="Two threads are at different pages. Whose addresses does a thread read from the list?",
)
known.accepted_change(
    "head after head",
    ("head = i % kv_heads, first = i / kv_heads * each", "head = i / blocks, first = i % blocks * each"),
)
known.accepted_change(
    "each key by itself",
    (
        """
        for (int k = 0; k < n;) {
          const int s = from + k, in_page = s % page;
          const int64_t row = (int64_t(table[s / page]) * kv_heads + head) * page + in_page;
          for (int j = 0; j < page - in_page && k < n; ++j) places[k++] = (row + j) * dims;
        }
        """,
        """
        for (int k = 0; k < n; ++k) {
          const int s = from + k;
          places[k] = ((int64_t(table[s / page]) * kv_heads + head) * page + s % page) * dims;
        }
        """,
    ),
)


@known.sized("256 tokens, 8 heads, 4 KV heads of 64, pages of 16")
def timed(program):
    keys, values, table = pooled(1, 256, 16, 4, 64)
    queries = normals(2)(256, 8, 64)
    return lambda: program(queries, keys, values, table, 256, 0.125)
