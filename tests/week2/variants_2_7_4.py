"""Reference variants of task 2.7.4, flash attention in Metal."""

import mlx.core as mx
from tests.week2.formulas_day7 import far_below_zero

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.kernels import costs
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.7.4")


def inputs(seed, heads, kv_heads, length, tokens, dims):
    return drawn(seed, (heads, length, dims), (kv_heads, tokens, dims), (kv_heads, tokens, dims))


known.probe_table(
    one_block=lambda program: program(*inputs(1, 1, 1, 16, 32, 8), 0.4, None),
    two_blocks=lambda program: program(*inputs(2, 1, 1, 16, 64, 8), 0.4, None),
    short_blocks=lambda program: program(*inputs(3, 1, 1, 5, 37, 8), 0.4, None),
    causal=lambda program: program(*inputs(4, 2, 1, 16, 16, 8), 0.4, "causal"),
    tokens_before=lambda program: program(*inputs(5, 1, 1, 32, 50, 8), 0.4, "causal"),
    heads=lambda program: program(*inputs(6, 4, 2, 16, 32, 8), 0.4, None),
    features=lambda program: program(*inputs(7, 1, 1, 16, 32, 40), 0.4, None),
    # Zero rows, so nothing runs: the other probes tell missing barriers apart.
    none=lambda program: program(*inputs(8, 1, 1, 0, 32, 8), 0.4, None),
)


@known.probe()
def metal_scores_far_below_zero(program):
    query, key, value = inputs(10, 1, 1, 16, 16, 8)
    return program(*far_below_zero(0 * query, key), value, 1.0, "causal")


def small_weights(program):
    """Return float16 output for large values with a weight of exp(-18), which float16 rounds to 0."""
    rest = mx.broadcast_to((mx.arange(20) > 0)[:, None], (1, 20, 8)).astype(mx.float16)
    return program(mx.ones((1, 3, 8), mx.float16), 1 - rest, 60000 * rest, 18 / 8, None)


known.probe_table(mx.float16, small_weights=small_weights)


@known.probe()
def metal_costs(program):
    """Return whether traffic is above the limit, and whether there are bank conflicts."""
    query, key, value = inputs(9, 1, 1, 64, 64, 32)
    found = costs(program, query, key, value, 0.4, "causal")
    enough = 2 * query.nbytes + 2 * (32 + 32 + 64 + 64) * 32 * 4  # in whole blocks of 32 keys
    return mx.array([found["moved"] > enough, found["bank_conflicts"] > 0])


TOTAL = "total[r] = total[r] * kept + simd_sum(weight);"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
SCORES = "float scores[4] = {};  // of key `lane`"

known.change(
    "total-not-rescaled",
    (TOTAL, TOTAL.replace(" * kept", "")),
    fact="the running sum of weights is not rescaled when the running maximum grows",
    question="Relative to which score are the weights whose sum is in `total`?",
)
known.change(
    "values-not-rescaled",
    ("seen[r][part] *= kept;", ""),
    fact="the accumulated values are not rescaled when the running maximum grows",
    question="Relative to which score are the weights that went into `seen`?",
)
known.change(
    "factor-after-the-maximum",
    ("const float kept = metal::exp(", "largest[r] = higher;\nconst float kept = metal::exp("),
    fact="the rescaling factor is computed after the running maximum has been updated, so it is always 1",
    question="What are the two maxima whose difference is in the exponent of your factor, when it is computed?",
)
known.together("total-not-rescaled", "values-not-rescaled", makes="factor-after-the-maximum")
known.change(
    "largest-of-a-lane",
    ("simd_max(score)", "score"),
    fact="each lane uses the maximum score of its own keys as that of the query",
    question="Key 3 has a score of 1, key 4 one of 9. What are the two weights relative to when they are added?",
)
known.change(
    "total-of-a-lane",
    ("simd_sum(weight)", "weight"),
    fact="each lane divides its features by the sum of the weights of its own keys",
    question="64 keys, 32 lanes: whose weights are in a lane's sum, and whose multiplied the values in its features?",
)
known.change(
    "hidden-is-zero",
    ("? scores[r] : -INFINITY", "? scores[r] : 0.0f"),
    fact="a masked key has a score of 0",
    question="All visible scores of a query are -5. How large is the weight of a score of 0?",
)
known.change(
    "hidden-at-minus-10000",
    ("? scores[r] : -INFINITY", "? scores[r] : -10000.0f"),
    fact="a hidden key has a score of -10,000, or another finite number, instead of -infinity",
    question="All visible scores of a query are -20,000. How large is the weight of a hidden key?",
)
known.change(
    "largest-from-zero",
    ("largest[r] = -INFINITY;", "largest[r] = 0;"),
    fact="the running maximum of a query starts at 0 instead of -infinity",
    question="All scores of a query are near -20,000. What is their maximum?",
)
known.change(
    "no-look-at-the-keys",
    ("+ row + 1, tokens) : tokens;", "+ row + 1, tokens) : from + 32;"),
    fact="lanes without a key in the last block count as keys with a score of 0",
    question="After 32 of 40 keys, 8 are left. How many lanes add a weight to the sum of the next block?",
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
    "offset-ignored",
    ("before = tokens - length", "before = 0"),
    fact="query i sees keys 0 to i, as if there were no tokens before the first query",
    question="32 queries, 50 keys: how many of them may query 0 see?",
)
known.change(
    "next-key-too",
    ("before + first + row + 1, tokens)", "before + first + row + 2, tokens)"),
    fact="each query also sees the key after its own, if it is in the same block",
    question="Query 0 of a sequence of two tokens: how many keys does it see?",
)
known.change(
    "heads-dealt-out",
    ("head / (query_shape[0] / key_shape[0])", "head % key_shape[0]"),
    fact="query head h reads key-value head h % kv_heads, a round-robin assignment",
    question="With four query heads and two key-value heads, which one should query head 1 read?",
)
known.change(
    "values-too-soon",
    (f"{BARRIER}  // until then, the keys are in use", ""),
    fact="values are written into the tile while other SIMD-groups may still read keys from it",
    question="SIMD-group 0 has its scores. Which SIMD-groups may still be computing theirs, and from what?",
)
known.change(
    "used-too-soon",
    (f"{BARRIER}\n\n{SCORES}", f"simdgroup_barrier(mem_flags::mem_threadgroup);\n\n{SCORES}"),
    fact="the barrier before the keys are used covers only one SIMD-group",
    question="Which SIMD-group has written key 1 into the tile, and which ones read it?",
)
known.change(
    "128-for-129",
    ("tile[32][129];", "tile[32][128];"),
    fact="rows of the tile are 128 numbers apart, so the first numbers of all keys are in the same bank",
    question="Each of 32 lanes reads the first number of its key. Which banks hold them?",
)
known.change(
    "nothing-skipped",
    ("end = causal[0] ? min(before + first + 16, tokens) : tokens;", "end = tokens;"),
    fact="blocks of keys that are masked for the whole block of queries are still loaded and multiplied",
    question="Queries 0 to 15 of a prompt of 64 tokens: which blocks of keys do they need?",
)
known.accepted_change(
    "per-lane sums of weights",
    (TOTAL, TOTAL.replace("simd_sum(weight)", "weight")),
    (
        "const uint row = first + simdgroup + 4 * r;",
        "const uint row = first + simdgroup + 4 * r;\n  const float sum = simd_sum(total[r]);",
    ),
    ("T(seen[r][part] / total[r])", "T(seen[r][part] / sum)"),
)
known.accepted_change(
    "powers of 2",
    ("scale[0] * float(query", "1.44269504f * scale[0] * float(query"),
    ("kept = metal::exp(", "kept = metal::exp2("),
    ("weight = metal::exp(", "weight = metal::exp2("),
)
known.not_timed("simulated time says nothing about a GPU")
