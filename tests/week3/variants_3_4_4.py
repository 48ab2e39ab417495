"""Known programs of task 3.4.4, paged attention in Metal."""

import math

import mlx.core as mx
from tests.week2.formulas_day7 import far_below_zero
from tests.week3.formulas_day4 import pooled, with_held

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import costs, moved
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.4.4")


def drawn(seed, length, tokens, page, heads=1, kv_heads=1, dims=8, spare=0):
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, spare=spare)
    return normals(seed + 2)(length, heads, dims), keys, values, table, tokens, 0.4


@known.probe(mx.float16)
def metal_scaled_out_of_half(program):
    """A query times scale exceeds float16; its scores do not."""
    query, keys, values, table, tokens, _ = drawn(12, 1, 32, 16)
    query, keys, values = (x.astype(mx.float16) for x in (64 * query, keys * 2**-13, values))
    return program(query, keys, values, table, tokens, 1024.0)


@known.probe(mx.float16)
def metal_small_weights(program):
    """Return float16 output for large values with a weight of exp(-18), which float16 rounds to 0."""
    rest = mx.broadcast_to((mx.arange(20) > 0)[:, None], (1, 1, 20, 8)).astype(mx.float16)
    return program(mx.ones((3, 1, 8), mx.float16), 1 - rest, 60000 * rest, [0], 20, 18 / 8)


@known.probe()
def metal_first_page(program):
    """Page 0 of the pool is the request's only one."""
    query, keys, values, _, tokens, scale = drawn(11, 1, 32, 32)
    return program(query, keys, values, [0], tokens, scale)


@known.probe()
def metal_none(program):
    """Nothing to run: a missing barrier is recognized by other probes."""
    query, *rest = drawn(12, 1, 32, 16)
    return program(query[:0], *rest)


@known.probe()
def metal_scores_far_below_zero(program):
    query, keys, values, table, tokens, _ = drawn(17, 16, 16, 16)
    return program(*far_below_zero(0 * query, keys), values, table, tokens, 1.0)


@known.probe()
def metal_other_slots(program):
    """Return whether the NaN in slots of other requests reaches the result."""
    *inputs, scale = drawn(16, 1, 37, 16)
    return mx.any(mx.isnan(program(*with_held(inputs, math.nan), scale)))


@known.probe()
def metal_pages_without_tokens(program):
    """Return whether the NaN in a page without tokens, which follows a full one, reaches the result."""
    *inputs, scale = drawn(18, 1, 48, 16, spare=1)
    return mx.any(mx.isnan(program(*with_held(inputs, math.nan), scale)))


@known.probe()
def metal_moved(program):
    """Three tiles of queries need 16, 32 and 48 keys; a program that loads whole blocks of 32 moves a tenth more."""
    query, *rest = drawn(13, 48, 48, 4, dims=32)
    return moved(program, query, *rest, enough=2 * query.nbytes + 2 * 96 * 32 * 4 + 4 * 4 * 2 * 64) > 1.2


@known.probe()
def metal_moved_by_one_tile(program):
    """One tile needs all 96 keys. A table of 8 pages or more is no constant."""
    query, *rest = drawn(15, 16, 96, 4, dims=32)
    return moved(program, query, *rest, enough=2 * query.nbytes + 2 * 96 * 32 * 4 + 3 * 4 * 2 * 64) > 1.2


known.probe_table(
    one_block=lambda program: program(*drawn(1, 1, 32, 16)),
    two_blocks=lambda program: program(*drawn(2, 1, 64, 16)),
    short_block=lambda program: program(*drawn(3, 1, 37, 16)),
    room_to_spare=lambda program: program(*drawn(4, 1, 37, 16, spare=2)),
    odd_pages=lambda program: program(*drawn(5, 1, 64, 20)),
    one_page=lambda program: program(*drawn(6, 1, 32, 32)),
    prompt=lambda program: program(*drawn(7, 16, 16, 8)),
    tokens_before=lambda program: program(*drawn(8, 18, 50, 16)),
    heads=lambda program: program(*drawn(9, 1, 32, 16, 4, 2)),
    prompt_of_heads=lambda program: program(*drawn(10, 4, 32, 16, 2, 1)),
    # bank conflicts
    banks=lambda program: mx.array(costs(program, *drawn(14, 16, 64, 16, dims=32))["bank_conflicts"] > 0),
)


TOTAL = "total[r] = total[r] * kept + simd_sum(weight);"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
PLACE = "((uint(table[s / page]) * kv_heads + shared) * page + s % page) * dims"

known.change(
    "scaled-in-t",
    ("scale[0] * float(query[from + d])", "float(T(scale[0]) * query[from + d])"),
    fact="queries are scaled in their own type and converted to float32 afterwards",
    question="In float16, what is 300 * 300?",
)
known.change(
    "weights-in-T",
    ("threadgroup float weights[16][32];", "threadgroup T weights[16][32];"),
    ("weights[row][lane] = weight;", "weights[row][lane] = T(weight);"),
    ("weights[simdgroup + 4 * r][k] * number", "float(weights[simdgroup + 4 * r][k]) * number"),
    fact="the weights are rounded to the dtype of the queries before they are multiplied by the values",
    question="What is exp(-18), and what is it in float16?",
)
known.change(
    "table-ignored",
    ("uint(table[s / page])", "s / page"),
    fact="the first pages of the pool are read in pool order, not those of the block table",
    question="With the block table [6, 1, 3], where is token 0?",
)
known.change(
    "page-without-heads",
    (PLACE, "((uint(table[s / page]) + shared) * page + s % page) * dims"),
    fact="the stride between pages is page_size * D, as if there were one KV head",
    question="How many numbers does a page hold, over all its heads?",
)
known.change(
    "head-0-of-the-page",
    (PLACE, "(uint(table[s / page]) * kv_heads * page + s % page) * dims"),
    fact="all heads use the keys and values of KV head 0",
    question="What comes before KV head 1 within a page?",
)
known.change(
    "token-by-token",
    (PLACE, "((uint(table[s / page]) * page + s % page) * kv_heads + shared) * dims"),
    fact="a page is indexed as page_size x kv_heads x D, but here it is kv_heads x page_size x D",
    question="In a page of kv_heads x page_size x D, how far apart are two tokens of one head?",
)
known.change(
    "heads-dealt-out",
    ("head / (heads / kv_heads)", "head % kv_heads"),
    fact="query head h uses KV head h % kv_heads",
    question="With four query heads and two KV heads, which one should query head 1 use?",
)
known.change(
    "table-for-all-lanes",
    ("if (lane < count) {\n  const uint s = from + lane;", "{\n  const uint s = from + lane;"),
    fact="lanes without a token also read the block table, past its end",
    question="37 tokens in tiles of 32: how many lanes of the second tile have a token?",
)
known.change(
    "whole-blocks-loaded",
    ("const uint count = min(end - from, 32u);", "const uint count = 32;"),
    ("uint(table[s / page])", "uint(table[min(s / page, uint(table_shape[0]) - 1)])"),
    fact="the last block also loads slots after the last token, whose weights are 0, and 0 times NaN is NaN",
    question="A slot after the last token holds what a finished request left there. What is NaN times 0?",
)
known.change(
    "last-page-loaded",
    (
        "const uint count = min(end - from, 32u);",
        "const uint slots = (uint(tokens[0]) + page - 1) / page * page, count = min(slots - from, 32u);",
    ),
    fact="the last page is loaded to its end: slots without a token have weights of 0, and 0 times NaN is NaN",
    question="A slot after the last token holds what a finished request left there. What is NaN times 0?",
)
known.change(
    "lane's-own-place",
    ("const uint key = simd_broadcast(place, k);", "const uint key = place;"),
    ("const uint value = simd_broadcast(place, k);", "const uint value = place;"),
    fact="each lane copies a feature of its own token instead of the token being copied",
    question="Lane 3 has the address of token 3. When the SIMD-group copies token 8, which lane has its address?",
)
known.change(
    "table-for-each-key",
    ("const uint key = simd_broadcast(place, k);", f"const uint s = from + k, key = {PLACE};"),
    ("const uint value = simd_broadcast(place, k);", f"const uint s = from + k, value = {PLACE};"),
    fact="the block table is read again for every key and every value",
    question="How many cache lines does a SIMD-group load from the block table for its eight keys of a tile?",
)
known.change(
    "broadcast-among-some-lanes",
    ("const uint key = simd_broadcast(place, k);", ""),
    ("keys[key + d]", "keys[simd_broadcast(place, k) + d]"),
    ("const uint value = simd_broadcast(place, k);", ""),
    ("values[value + d]", "values[simd_broadcast(place, k) + d]"),
    fact="simd_broadcast is called inside the loop over features, whose last iteration some lanes skip",
    question="There are 80 features. Which lanes run the third iteration of the loop, and which lane has token 20?",
)
known.change(
    "query-by-head",
    ("(min(first + row, length - 1) * heads + head) * dims", "(head * length + min(first + row, length - 1)) * dims"),
    ("out[(row * heads + head) * dims", "out[(head * length + row) * dims"),
    fact="queries and output are indexed as heads x L x D, as on day 7 of week 2, but here they are L x heads x D",
    question="In an array L x heads x D, how far apart are query 0 and query 1 of a head?",
)
known.change(
    "offset-ignored",
    ("before = tokens[0] - length", "before = 0"),
    fact="query i attends to tokens 0 to i, as if none were cached before the first query",
    question="18 queries, 50 tokens: how many of them may query 0 attend to?",
)
known.change(
    "next-key-too",
    ("before + first + row + 1, end)", "before + first + row + 2, end)"),
    fact="each query also attends to the token after its own if its tile has it",
    question="Query 0 of a sequence of two tokens: how many tokens does it attend to?",
)
known.change(
    "total-not-rescaled",
    (TOTAL, TOTAL.replace(" * kept", "")),
    fact="the running sum of weights is not rescaled when the maximum score grows",
    question="Relative to which score are the weights in `total`?",
)
known.change(
    "values-not-rescaled",
    ("seen[r][part] *= kept;", ""),
    fact="the accumulated values are not rescaled when the maximum score grows",
    question="Relative to which score are the weights that went into `seen`?",
)
known.change(
    "hidden-is-zero",
    ("? scores[r] : -INFINITY", "? scores[r] : 0.0f"),
    fact="a masked token has a score of 0",
    question="All visible scores are -5. How large is the weight of a score of 0?",
)
known.change(
    "hidden-at-minus-10000",
    ("? scores[r] : -INFINITY", "? scores[r] : -10000.0f"),
    fact="a hidden token has a score of -10,000, or another finite number, instead of -infinity",
    question="All visible scores are -20,000. How large is the weight of a hidden token?",
)
known.change(
    "largest-from-zero",
    ("largest[r] = -INFINITY;", "largest[r] = 0;"),
    fact="the running maximum of a query starts at 0 instead of -infinity",
    question="All scores of a query are near -20,000. What is their maximum?",
)
known.change(
    "values-too-soon",
    (f"{BARRIER}  // until then, the keys are in use", ""),
    fact="a barrier is missing before the values overwrite the tile, while other SIMD-groups may still read keys",
    question="SIMD-group 0 has its scores. Which SIMD-groups may still be computing theirs, and from what?",
)
known.change(
    "keys-too-soon",
    (f"{BARRIER}  // until then, the previous values are in use", ""),
    fact="a barrier is missing before the next keys overwrite the tile, while others may still read values",
    question="SIMD-group 0 has summed its values. Which SIMD-groups may still be reading theirs, and from where?",
)
known.change(
    "128-for-129",
    ("tile[32][129];", "tile[32][128];"),
    fact="the tile's row stride is 128, so the first numbers of all keys share one bank",
    question="Each of 32 lanes reads the first number of its key. Which banks are these in?",
)
known.change(
    "nothing-skipped",
    ("end = min(before + first + 16, uint(tokens[0]));", "end = tokens[0];"),
    fact="tiles of keys that are masked for all queries of the block are still loaded and multiplied",
    question="Queries 0 to 15 of a prompt of 64 tokens: which tiles of keys do they need?",
)
known.accepted_change(
    "shuffled",
    ("const uint key = simd_broadcast(place, k);", "const uint key = simd_shuffle(place, k);"),
    ("const uint value = simd_broadcast(place, k);", "const uint value = simd_shuffle(place, k);"),
)
known.accepted_change(
    "lanes add up weights of their own",
    (TOTAL, TOTAL.replace("simd_sum(weight)", "weight")),
    (
        "const uint row = first + simdgroup + 4 * r;",
        "const uint row = first + simdgroup + 4 * r;\n  const float sum = simd_sum(total[r]);",
    ),
    ("T(seen[r][part] / total[r])", "T(seen[r][part] / sum)"),
)
known.not_timed("the simulator's time says nothing about a GPU's")
