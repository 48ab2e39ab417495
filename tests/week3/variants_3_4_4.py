"""Known programs of task 3.4.4, paged attention in Metal."""

import mlx.core as mx
from tests.week3.formulas_day4 import pooled

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import costs, moved
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.4.4")


def drawn(seed, length, tokens, page, heads=1, kv_heads=1, dims=8, spare=0):
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, spare=spare)
    return normals(seed + 2)(length, heads, dims), keys, values, table, tokens, 0.4


@known.probe(mx.float16)
def metal_scaled_out_of_half(program):
    """A query times scale is more than float16 can hold; its scores are not."""
    query, keys, values, table, tokens, _ = drawn(12, 1, 32, 16)
    query, keys, values = (x.astype(mx.float16) for x in (64 * query, keys * 2**-13, values))
    return program(query, keys, values, table, tokens, 1024.0)


@known.probe()
def metal_first_page(program):
    """Page 0 of the pool is the request's only one."""
    query, keys, values, _, tokens, scale = drawn(11, 1, 32, 32)
    return program(query, keys, values, [0], tokens, scale)


@known.probe()
def metal_none(program):
    """Nothing to run: whoever waits too little is known by the others."""
    query, *rest = drawn(12, 1, 32, 16)
    return program(query[:0], *rest)


@known.probe()
def metal_moved(program):
    """Three blocks of queries need 16, 32 and 48 keys, in four blocks. A table of 8 pages or more is no constant."""
    query, *rest = drawn(13, 48, 48, 4, dims=32)
    return moved(program, query, *rest, enough=2 * query.nbytes + 2 * 96 * 32 * 4 + 4 * 4 * 2 * 64)


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
    # Whether threads wait for banks.
    banks=lambda program: mx.array(costs(program, *drawn(14, 16, 64, 16, dims=32))["bank_conflicts"] > 0),
)


TOTAL = "total[r] = total[r] * kept + simd_sum(weight);"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
PLACE = "((uint(table[s / page]) * kv_heads + shared) * page + s % page) * dims"

known.change(
    "scaled-in-t",
    ("scale[0] * float(query[from + d])", "float(T(scale[0]) * query[from + d])"),
    fact="queries are multiplied by scale in their own type, and become float32 only then",
    question="In float16, what is 300 * 300?",
)
known.change(
    "table-ignored",
    ("uint(table[s / page])", "s / page"),
    fact="the first pages of the pool are read, in its own order, and not those of the table",
    question="With the table [6, 1, 3], where is token 0?",
)
known.change(
    "page-without-heads",
    (PLACE, "((uint(table[s / page]) + shared) * page + s % page) * dims"),
    fact="two pages of the pool lie page * D numbers apart, as if there were one key-value head",
    question="How many numbers does a page hold, of all its heads?",
)
known.change(
    "head-0-of-the-page",
    (PLACE, "(uint(table[s / page]) * kv_heads * page + s % page) * dims"),
    fact="all heads read the keys and values of key-value head 0",
    question="What lies between the beginning of a page and its key-value head 1?",
)
known.change(
    "heads-dealt-out",
    ("head / (heads / kv_heads)", "head % kv_heads"),
    fact="query head h reads key-value head h % kv_heads, as if these were dealt out in turn",
    question="With four query heads and two key-value heads, which one should query head 1 read?",
)
known.change(
    "table-for-all-lanes",
    ("if (lane < count) {\n  const uint s = from + lane;", "{\n  const uint s = from + lane;"),
    fact="lanes without a token look one up, too, behind the end of the table",
    question="37 tokens in blocks of 32: how many lanes of the second block have a token?",
)
known.change(
    "lane's-own-place",
    ("const uint key = simd_broadcast(place, k);", "const uint key = place;"),
    ("const uint value = simd_broadcast(place, k);", "const uint value = place;"),
    fact="each lane copies a feature of its own token, and not of the one whose turn it is",
    question="Lane 3 knows where token 3 is. When the SIMD-group copies token 8, who knows where that is?",
)
known.change(
    "table-for-each-key",
    ("const uint key = simd_broadcast(place, k);", f"const uint s = from + k, key = {PLACE};"),
    ("const uint value = simd_broadcast(place, k);", f"const uint s = from + k, value = {PLACE};"),
    fact="the table is read again for every key and every value",
    question="How many lines of memory does a SIMD-group fetch of the table for its eight keys of a block?",
)
known.change(
    "query-by-head",
    ("(min(first + row, length - 1) * heads + head) * dims", "(head * length + min(first + row, length - 1)) * dims"),
    fact="queries are read as heads x L x D, as on day 7 of week 2, where they are L x heads x D",
    question="In an array L x heads x D, how many numbers lie between query 0 and query 1 of a head?",
)
known.change(
    "offset-ignored",
    ("before = tokens[0] - length", "before = 0"),
    fact="query i sees the tokens 0 to i, as if there were none before the first query",
    question="18 queries, 50 tokens: how many of them may query 0 see?",
)
known.change(
    "next-key-too",
    ("before + first + row + 1, end)", "before + first + row + 2, end)"),
    fact="each query sees the token behind its own, too, if its block has it",
    question="Query 0 of a text of two tokens: how many tokens does it see?",
)
known.change(
    "total-not-rescaled",
    (TOTAL, TOTAL.replace(" * kept", "")),
    fact="the sum of the weights so far stays as it is when the largest score grows",
    question="Relative to which score are the weights whose sum is in `total`?",
)
known.change(
    "hidden-is-zero",
    ("? scores[r] : -INFINITY", "? scores[r] : 0.0f"),
    fact="a token that a query does not see has a score of 0",
    question="All scores that a query sees are -5. How large is the weight of a score of 0?",
)
known.change(
    "values-too-soon",
    (f"{BARRIER}  // all are through with the keys", ""),
    fact="values are put into the tile while others may still read keys there",
    question="SIMD-group 0 has its scores. Which SIMD-groups may still be adding up theirs, and from what?",
)
known.change(
    "keys-too-soon",
    (f"{BARRIER}  // all are through with the values before", ""),
    fact="keys are put into the tile while others may still read the values of the block before there",
    question="SIMD-group 0 has added up its values. Which SIMD-groups may still be reading theirs, and from where?",
)
known.change(
    "128-for-129",
    ("tile[32][129];", "tile[32][128];"),
    fact="rows of the tile lie 128 numbers apart, so that the first numbers of all keys lie in the same bank",
    question="Each of 32 lanes reads the first number of its key. In which banks do these lie?",
)
known.change(
    "nothing-skipped",
    ("end = min(before + first + 16, uint(tokens[0]));", "end = tokens[0];"),
    fact="blocks of keys that all queries of a block do not see are moved and multiplied all the same",
    question="Queries 0 to 15 of a prompt of 64 tokens: which blocks of keys do they need?",
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
known.not_timed("the simulator's time says nothing of a GPU's")
