"""Reference variants of task 2.7.2, attention in blocks."""

from functools import partial

import mlx.core as mx
from tests.week2.formulas_day7 import far_below_zero
from tiny_llm_solution.attention import scaled_dot_product_attention_grouped as whole

from tiny_llm_course.testkit.inputs import causal, drawn
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.7.2")


def inputs(seed, dtype=mx.float32, length=5, keys=8, heads=6, kv_heads=2):
    """A group of 3."""
    return drawn(seed, (2, heads, length, 8), (2, kv_heads, keys, 8), (2, kv_heads, keys, 8), dtype=dtype)


known.probe_table(
    one_block=lambda program: program(*inputs(1)),
    blocks=lambda program: (program(*inputs(2), block=2), program(*inputs(2), block=3)),
    given_scale=lambda program: program(*inputs(3), scale=0.7, block=3),
    causal=lambda program: program(*inputs(4), mask="causal", block=3),
    causal_square=lambda program: program(*inputs(5, keys=5), mask="causal", block=2),
    causal_one_block=lambda program: program(*inputs(6, keys=5), mask="causal"),
    # Each row of the mask differs.
    mask_of_rows=lambda program: program(*inputs(8), mask=causal(5, 8, mx.float32), block=2),
    mask_of_keys=lambda program: program(*inputs(13), mask=causal(1, 8, mx.float32), block=2),
    mask_of_keys_alone=lambda program: program(*inputs(14), mask=causal(5, 8, mx.float32)[2], block=3),
    no_group=lambda program: program(*inputs(11, heads=2), mask="causal", block=3),
    mask=lambda program: tuple(program(*inputs(7), mask=2 * mask, block=3) for mask in drawn(70, (5, 8), (2, 6, 5, 8))),
)
known.probe_table(mx.float16, half=lambda program: program(*inputs(9, mx.float16), block=3))


@known.probe()
def flash_scores_far_below_zero(program):
    query, key, value = inputs(15, length=6, keys=6)
    return program(*far_below_zero(query, key), value, 1.0, "causal", block=2)


@known.probe()
def flash_nan_behind(program):
    query, key, value = inputs(10, length=6, keys=6)
    key, value = (mx.where(mx.arange(6)[:, None] >= 4, mx.nan, x) for x in (key, value))
    return program(query, key, value, mask="causal", block=2)[..., :4, :]


@known.probe()
def flash_nan_behind_in_the_block(program):
    """The second block of keys begins before the last query of the first block, and ends after it."""
    query, key, value = inputs(16, length=6, keys=7)
    key, value = (mx.where(mx.arange(7)[:, None] >= 3, mx.nan, x) for x in (key, value))
    return program(query, key, value, mask="causal", block=2)[..., :2, :]


@known.probe()
def flash_memory(program):
    """Return whether peak memory is below one byte per score, for many queries and for many keys."""
    found = []
    for length, keys in [(1024, 1024), (64, 16384)]:
        three = [x[0] for x in inputs(12, length=length, keys=keys, heads=2, kv_heads=1)]
        mx.eval(three)
        taken = peak_bytes(partial(program, *three, mask="causal", block=64))
        found.append(taken < 2 * length * keys)
    return mx.array(found, mx.float32)


@known.sized("1,024 tokens, H 4, H_kv 2, D 32, float32")
def sized(program):
    three = drawn(1, (1, 4, 1024, 32), (1, 2, 1024, 32), (1, 2, 1024, 32))
    return lambda: program(*three, mask="causal")


DIAGONAL = "elif causal and some.stop > before + first + 1:  # some query of the block does not see all of them"
VISIBLE = "mx.where(mx.arange(some.start, some.stop) <= seen, scores, -mx.inf)"
HIDDEN = "mx.where(mx.arange(some.start, some.stop) > seen, -mx.inf, scores)"
EVALUATED = "mx.eval(running.result())  # so that the scores can be freed"
APPENDED = "blocks.append(running.result().astype(value.dtype))"
SEEN = "mx.arange(before + first, before + last)[:, None]"
SCALED_SCORES = (
    (".astype(mx.float32) * scale", ".astype(mx.float32)"),
    (
        "scores = queries @ key[..., some, :].astype(mx.float32).swapaxes(-1, -2)",
        "scores = (queries @ key[..., some, :].astype(mx.float32).swapaxes(-1, -2)) * scale",
    ),
)
# With these operations, MLX evaluates many blocks of keys before it frees the first, if it is given them all.
MASKED_BY_POSITION = (
    *SCALED_SCORES,
    (DIAGONAL, "elif causal:"),
    (VISIBLE, HIDDEN),
    (SEEN, "mx.arange(last - first)[:, None] + before + first"),
)
known.change(
    "no-scale",
    ("dims**-0.5 if scale is None else scale", "1.0 if scale is None else scale"),
    fact="the default scale 1/sqrt(D) is missing",
    question="What does scale=None mean, here and on day 1?",
)
known.change(
    "scale-twice",
    ("scores = queries @", "scores = scale * queries @"),
    fact="the scale is applied twice",
    question="Are your queries already scaled when they are multiplied by the keys?",
)
known.change(
    "offset-ignored",
    ("scale = dims**-0.5", "before = 0\nscale = dims**-0.5"),
    fact='mask="causal" lets query i see keys 0 to i, as if there were no tokens before the first query',
    question="Five queries, eight keys: what is the position of query 0?",
)
known.change(
    "nothing-hidden-within-a-block",
    (DIAGONAL, "elif causal and some.start > before + last:"),
    fact="blocks after the last query are skipped, but nothing is masked within the others",
    question="A block of three queries is multiplied by keys at the same positions. Which may the first of them see?",
)
known.change(
    "keys-up-to-the-first-query",
    ("end = before + last if causal", "end = before + first + 1 if causal"),
    fact="the loop over keys ends at the first query of the block instead of its last one",
    question="Which query of a block sees the most keys?",
)
known.change(
    "not-itself",
    (DIAGONAL, "elif causal:"),
    ("<= seen", "< seen"),
    fact="a query does not see its own key",
    question="May query i see key i?",
)
known.change(
    "keys-counted-from-the-block",
    ("mx.arange(some.start, some.stop)", "mx.arange(some.stop - some.start)"),
    fact="the mask counts the keys from the start of their block",
    question="What is the position of the first key of the second block?",
)
known.change(
    "queries-counted-from-the-block",
    (SEEN, "mx.arange(before, before + last - first)[:, None]"),
    fact="the mask counts the queries from the start of their block",
    question="What is the position of the first query of the second block?",
)
known.change(
    "causal-ignored",
    ("causal, before = isinstance(mask, str), keys - length", "causal, before = False, keys - length"),
    fact='mask="causal" masks nothing',
    question='What do your loops do when mask is "causal"?',
)
known.change(
    "tile",
    ("mx.unflatten(query, -3, (kv_heads, -1))", "mx.unflatten(query, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    ("mask = mx.unflatten(mask, -3, (kv_heads, -1))", "mask = mx.unflatten(mask, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    (".flatten(-4, -3)", ".swapaxes(-4, -3).flatten(-4, -3)"),
    fact="query head h reads key-value head h % H_kv, a round-robin assignment",
    question="With six query heads and two key-value heads, which one should query head 1 read?",
)
known.change(
    "mask-of-the-first-queries",
    ("mask[..., first:last, some]", "mask[..., : last - first, some]"),
    fact="every block of queries uses the first rows of the mask",
    question="Which rows of the mask belong to the second block of queries?",
)
known.change(
    "mask-of-the-first-keys",
    ("mask[..., first:last, some]", "mask[..., first:last, : some.stop - some.start]"),
    fact="every block of keys uses the first columns of the mask",
    question="Which columns of the mask belong to the second block of keys?",
)
known.change(
    "last-keys-lost",
    ("range(0, end, block)", "range(0, end - end % block or 1, block)"),
    fact="keys that do not fill a block are ignored",
    question="Eight keys in blocks of three: how many blocks is that?",
)
known.change(
    "hidden-blocks-computed",
    ("end = before + last if causal else keys", "end = keys"),
    fact="blocks of keys that are masked for the whole block of queries are still computed",
    question="Which is the last key that the last query of the block sees? What about the blocks after it?",
)
known.change(
    "last-block-read-to-its-end",
    ("min(end, begin + block)", "min(keys, begin + block)"),
    fact="the last block of keys is read to its end, including keys after the last query of the block of queries",
    question="Two tokens precede four queries, and a block has four keys. Which of the keys 4 to 7 do the queries see?",
)
known.change(
    "float32-result",
    ("running.result().astype(value.dtype)", "running.result()"),
    fact="the result is float32 although the query is not",
    question="What is the dtype of OnlineSoftmax's result?",
)
known.change(
    "all-blocks-waiting",
    (EVALUATED, ""),
    fact="nothing is evaluated until the end, so the scores of many blocks are in memory at once",
    question="When does MLX compute the scores of your first block, and when can it free them?",
)
known.change(
    "keys-waiting",
    (EVALUATED, ""),
    (APPENDED, f"{APPENDED}\nmx.eval(blocks[-1])"),
    *MASKED_BY_POSITION,
    fact="the blocks of keys of a block of queries are evaluated together, so all their scores are in memory at once",
    question="With 256 blocks of keys, when does MLX compute the scores of each, and when can it free them?",
)
known.change(
    "one-state-for-all-queries",
    ("scale = dims**-0.5", "state = []\nscale = dims**-0.5"),
    ("running = OnlineSoftmax(*queries.shape)", "state = state or [OnlineSoftmax(*queries.shape)]\n(running,) = state"),
    fact="all blocks of queries use one OnlineSoftmax, which still has the state of the blocks before",
    question="What has your OnlineSoftmax accumulated when the second block of queries begins?",
)
known.change(
    "sliced-before-broadcast",
    ("mask = mx.broadcast_to(mask, (*leading, heads, length, keys))  # a view: nothing is copied", ""),
    (
        "mask = mx.unflatten(mask, -3, (kv_heads, -1))",
        "if mask.ndim > 2:\n    mask = mx.unflatten(mask, -3, (kv_heads, -1) if mask.shape[-3] == heads else (1, 1))",
    ),
    fact="the mask is sliced by queries and keys before it is broadcast",
    question="A mask of shape 1 x S hides keys from all queries. What is its slice for the second block of queries?",
)
known.change(
    "mask-scaled",
    ("+ mask[..., first:last, some]", "+ mask[..., first:last, some] * scale"),
    fact="the mask is multiplied by the scale along with the scores",
    question="Is the mask added before or after scaling?",
)
known.change(
    "values-of-the-first-keys",
    ("value[..., some, :]", "value[..., : some.stop - some.start, :]"),
    fact="every block of keys uses the values of the first block",
    question="Which values belong to the second block of keys?",
)


known.change(
    "hidden-at-minus-10000",
    ("seen, scores, -mx.inf)", "seen, scores, -1e4)"),
    fact="a hidden key has a score of -10,000, or another finite number, instead of -inf",
    question="All visible scores of a query are -20,000. How large is the weight of a hidden key?",
)


@known.wrong(
    "the-whole-table",
    fact="all scores are in memory at once, including masked ones",
    question="How many scores does your program hold in memory for L queries and S keys?",
)
def the_whole_table(query, key, value, scale=None, mask=None, block=128):
    if isinstance(mask, mx.array):
        return all_hidden(query, key, value, scale, mask)
    return whole(query, key, value, scale, mask)


def all_hidden(query, key, value, scale, mask):
    """Use week 1's grouped attention, with zeros for fully masked rows."""
    hidden = mx.broadcast_to(mx.max(mask, axis=-1, keepdims=True) == -mx.inf, (*query.shape[:-1], 1))
    return mx.where(hidden, 0.0, whole(query, key, value, scale, mx.where(mx.isinf(mask), -1e9, mask))).astype(
        query.dtype
    )


known.accepted_change("every block is masked", (DIAGONAL, "elif causal:"))
known.written("every block is masked, by what is hidden", (DIAGONAL, "elif causal:"), (VISIBLE, HIDDEN))
known.accepted_change("scores are scaled", *SCALED_SCORES)
known.written("the mask by position, scores scaled", *MASKED_BY_POSITION)


@known.accepted("head by head, with the softmax written out")
def head_by_head(query, key, value, scale=None, mask=None, block=128):
    *leading, heads, length, dims = query.shape
    kv_heads, keys = key.shape[-3:-1]
    if heads % kv_heads or (isinstance(mask, str) and (mask != "causal" or length > keys)):
        raise ValueError("uneven groups, an unknown mask, or too many queries")
    scale = dims**-0.5 if scale is None else scale
    outputs = []
    for h in range(heads):
        k, v = (x[..., h * kv_heads // heads, :, :].astype(mx.float32) for x in (key, value))
        rows = []
        for first in range(0, length, block):
            q = query[..., h, first : first + block, :].astype(mx.float32)
            here = mx.arange(keys - length + first, keys - length + first + q.shape[-2])[:, None]
            end = keys - length + first + q.shape[-2] if isinstance(mask, str) else keys
            top, total, seen = mx.full((*q.shape[:-1], 1), -1e30), mx.zeros((*q.shape[:-1], 1)), mx.zeros(q.shape)
            for begin in range(0, end, block):
                last = min(end, begin + block)
                s = scale * (q @ k[..., begin:last, :].swapaxes(-1, -2))
                if isinstance(mask, str):
                    s = mx.where(mx.arange(begin, last) <= here, s, -mx.inf)
                elif mask is not None:
                    wide = mx.broadcast_to(mask, (*leading, heads, length, keys))
                    s = s + wide[..., h, first : first + block, begin:last]
                new = mx.maximum(top, mx.max(s, axis=-1, keepdims=True))
                e, kept = mx.exp(s - new), mx.exp(top - new)
                total = total * kept + mx.sum(e, axis=-1, keepdims=True)
                seen, top = seen * kept + e @ v[..., begin:last, :], new
                mx.eval(total, seen, top)
            rows.append((seen / mx.maximum(total, 1e-30)).astype(query.dtype))
        outputs.append(mx.concatenate(rows, axis=-2))
    return mx.stack(outputs, axis=-3)
