"""Known programs of task 4.3.3, tiled attention within a window."""

from functools import partial

import mlx.core as mx
from tiny_llm_solution.attention import scaled_dot_product_attention_grouped as grouped
from tiny_llm_solution.local_attention.masks import window_mask

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.3.3")


def inputs(seed, dtype=mx.float32, length=11, keys=11, heads=6, kv_heads=2):
    """A group of 3."""
    draw = normals(seed, dtype)
    return draw(2, heads, length, 8), draw(2, kv_heads, keys, 8), draw(2, kv_heads, keys, 8)


known.probe_table(
    of_a_text=lambda program: (program(*inputs(1), 3, 0, block_size=4), program(*inputs(1), 5, 0, block_size=2)),
    with_sinks=lambda program: (program(*inputs(2), 3, 2, block_size=4), program(*inputs(2), 2, 5, block_size=3)),
    behind_others=lambda program: (
        program(*inputs(3, length=5), 4, 0, block_size=2),
        program(*inputs(3, length=5), 4, 2, block_size=2),
    ),
    one_query=lambda program: (program(*inputs(4, length=1), 3, 1), program(*inputs(4, length=1), 3, 0)),
    in_one=lambda program: (program(*inputs(5), 3, 1), program(*inputs(5), 4, 0)),
    without_a_window=lambda program: (
        program(*inputs(6), None, 0, block_size=4),
        program(*inputs(6), None, 3, block_size=4),
    ),
    long_window=lambda program: (program(*inputs(7), 20, 0, block_size=4), program(*inputs(7), 11, 2, block_size=4)),
    given_scale=lambda program: program(*inputs(8), 3, 1, scale=0.7, block_size=4),
    refused=lambda program: refusals(
        lambda case: program(*inputs(13, length=case[0]), *case[1:]), [(12, 3, 0), (5, 0, 0), (5, 3, -1)]
    ),
)
known.probe_table(no_batch=lambda program: program(*(x[0] for x in inputs(15)), 3, 1, block_size=4))
known.probe_table(mx.float16, half=lambda program: program(*inputs(9, mx.float16), 3, 1, block_size=4))


@known.probe()
def blocks_nan(program):
    """NaN in keys that the second tile of queries does not see."""
    query, key, value = inputs(10, length=12, keys=12)
    hidden = (mx.arange(12) < 2) | (mx.arange(12) >= 8)
    poison = mx.where(hidden, mx.nan, 0.0)[:, None]
    return program(query, key + poison, value + poison, 3, 0, block_size=4)[..., 4:8, :]


@known.probe()
def later_nan(program):
    """NaN in keys that follow the first tile of queries."""
    query, key, value = inputs(14, length=12, keys=12)
    poison = mx.where(mx.arange(12) >= 4, mx.nan, 0.0)[:, None]
    return program(query, key + poison, value + poison, 3, 0, block_size=4)[..., :4, :]


@known.probe()
def later_sinks_nan(program):
    """NaN in sinks that follow the first tile of queries."""
    query, key, value = inputs(16, length=12, keys=12)
    poison = mx.where(mx.arange(12) >= 4, mx.nan, 0.0)[:, None]
    return program(query, key + poison, value + poison, 3, 6, block_size=4)[..., :4, :]


@known.probe()
def blocks_memory(program):
    """Return whether it allocates no more than a few tiles, and less than the scores of sixteen heads.

    A mask has no heads, so one for all L x S pairs takes less than that.
    """
    found = []
    for length, keys in [(2048, 2048), (32, 8192)]:
        three = [x[0] for x in inputs(12, length=length, keys=keys, heads=2, kv_heads=1)]
        mx.eval(three)
        taken = peak_bytes(partial(program, *three, 32, 4, None, 32))
        found += [taken < max(2**18, length * keys // 8)]
    three = [x[0] for x in inputs(15, length=512, keys=512, heads=16, kv_heads=1)]
    mx.eval(three)
    found += [peak_bytes(partial(program, *three, 32, 4, None, 32)) < 4 * 16 * 512 * 512]
    return mx.array(found, mx.float32)


@known.sized("2,048 tokens, H 4, H_kv 2, D 32, window 256, sinks 4, float32")
def sized(program):
    draw = normals(1)
    query, key, value = draw(1, 4, 2048, 32), draw(1, 2, 2048, 32), draw(1, 2, 2048, 32)
    return lambda: program(query, key, value, 256, 4)


BEGIN = "max(0, before + first - window + 1)"
MASK = "window_mask(last - first, some[0].shape[-2], window, sinks, query.dtype)"
# the same for a band that may have fewer keys than there are queries
WIDE = MASK.replace("some[0].shape[-2]", "max(last - first, some[0].shape[-2])") + "[:, -some[0].shape[-2] :]"
BAND = "mx.concatenate([x[..., :sinks, :], x[..., begin:end, :]], axis=-2)"
known.change(
    "one-too-far",
    (BEGIN, "max(0, before + first - window)"),
    (MASK, MASK.replace("window, sinks", "window and window + 1, sinks")),
    fact="the window does not count the query's own key, so one key too many is visible",
    question="With a window of 1, how many keys does a query see?",
)
known.change(
    "begins-one-late",
    (BEGIN, "max(0, before + first - window + 2)"),
    fact="a tile's keys start one too late, so its first query misses the earliest key of its window",
    question="A tile starts with query 4, and the window is 3. Which is the first key that query 4 sees?",
)
known.change(
    "from-the-last-query-s-window",
    (BEGIN, "max(0, before + last - window)"),
    (MASK, WIDE),
    fact="a tile's keys start with its last query's window instead of its first's",
    question="A tile has the queries 4 to 7, and the window is 3. Which is the first key that one of them sees?",
)
known.change(
    "up-to-the-first-query",
    ("end = before + last  #", "end = before + first + 1  #"),
    (MASK, "window_mask(last - first, before + last, window, sinks, query.dtype)[:, -some[0].shape[-2] :]"),
    fact="a tile's keys end at its first query instead of its last",
    question="A tile has the queries 4 to 7. Which is the last key that one of them sees?",
)
known.change(
    "offset-ignored",
    ("before = keys - length", "before = 0"),
    fact="query i is at position i, as if no tokens preceded the first query",
    question="Five queries, eleven keys: what is the position of query 0?",
)
known.change(
    "one-batch-axis",
    ("return x[..., :end, :]", "return x[:, :, :end]"),
    (
        "mx.concatenate([x[..., :sinks, :], x[..., begin:end, :]], axis=-2)",
        "mx.concatenate([x[:, :, :sinks], x[:, :, begin:end]], axis=2)",
    ),
    ("some[0].shape[-2]", "some[0].shape[2]"),
    ("query[..., first:last, :]", "query[:, :, first:last]"),
    ("mx.concatenate(blocks, axis=-2)", "mx.concatenate(blocks, axis=2)"),
    fact="arrays are sliced along axis 2, as if there were always one axis before the heads",
    question="A query is H x L x D. Which of its axes do you slice?",
)
known.change(
    "nothing-hidden-within-a-block",
    (MASK, "mx.zeros((last - first, some[0].shape[-2]), query.dtype)"),
    fact="no mask is applied within a tile, so a query sees later keys",
    question="A tile has the queries 4 to 7. May query 4 see key 6?",
)
known.change(
    "causal-within-a-block",
    (MASK, "window_mask(last - first, some[0].shape[-2], None, sinks, query.dtype)"),
    fact="the mask within a tile is only causal, so a query sees keys beyond its window",
    question="A tile has the queries 4 to 7, and the window is 3. May query 7 see key 2?",
)
known.change(
    "window-of-the-block",
    (BEGIN, "max(0, before + first - window + 1) // block_size * block_size"),
    (BAND, "mx.concatenate([x[..., :sinks, :], x[..., begin:end, :]], axis=-2)"),
    fact="keys before the window of a tile's first query are also loaded, and then masked",
    question="Which is the first key that the tile's first query sees? Do you use an earlier one?",
)
known.change(
    "no-sinks",
    ("return mx.concatenate([x[..., :sinks, :], x[..., begin:end, :]], axis=-2)", "return x[..., begin:end, :]"),
    (MASK, "window_mask(last - first, some[0].shape[-2], window, sinks if begin <= sinks else 0, query.dtype)"),
    fact="sinks are left out unless they are adjacent to the window",
    question="With a window of 3 and two sinks, which keys does query 40 see?",
)
known.change(
    "sinks-taken-twice",
    ("if begin <= sinks:", "if begin <= 0:"),
    fact="sinks inside the window are included twice and get twice the weight",
    question="Two sinks, and a tile whose window starts at key 1: how often is key 1 among your keys?",
)
known.change(
    "sinks-hidden",
    (MASK, "window_mask(last - first, some[0].shape[-2], window, 0, query.dtype)"),
    fact="the sinks are loaded and then masked",
    question="What does your mask contain for the sinks?",
)
known.change(
    "whole-mask-s-first-rows",
    (MASK, "window_mask(last - first, keys, window, sinks, query.dtype)[:, : some[0].shape[-2]]"),
    fact="a tile's mask is cut from the left end of the full mask, wherever its keys start",
    question="Which columns of the full mask are for the tile's keys?",
)
known.change(
    "no-window",
    ("begin = 0 if window is None else max(0, before + first - window + 1)", "begin = 0"),
    (MASK, "window_mask(last - first, some[0].shape[-2], None, sinks, query.dtype)"),
    fact="window is ignored, and every key up to the query's own is visible",
    question="Which keys are too far back for a query at position 10 and a window of 3?",
)
known.change(
    "computed-and-hidden",
    ("begin = 0 if window is None else max(0, before + first - window + 1)", "begin = 0"),
    fact="all keys up to the tile's last query are computed, then masked",
    question="How many scores does a tile compute at the end of a long sequence? How many of them count?",
)
known.change(
    "all-keys-in-every-tile",
    ("some = _band(key, begin, end, sinks), _band(value, begin, end, sinks)", "some = key, value"),
    (MASK, "window_mask(length, keys, window, sinks, query.dtype)[first:last]"),
    fact="each tile of queries is compared with all S keys, and the mask hides the others",
    question="Which keys do the first four queries of a sequence see, and which do you pass to attention for them?",
)
known.change(
    "whole-mask-built",
    ("blocks = []", "blocks, whole = [], window_mask(length, keys, window, sinks, query.dtype)"),
    (MASK, "whole[first:last, mx.array([*range(min(sinks, begin)), *range(begin, end)])]"),
    fact="the mask of all L x S pairs is built, although the scores are computed tile by tile",
    question="How many elements does your largest array have for L queries and S keys?",
)
known.change(
    "no-scale",
    ("window_mask(last - first,", "0 * mx.zeros(1, query.dtype) + window_mask(last - first,"),
    ("*some, scale, mask)", "*some, 1.0 if scale is None else scale, mask)"),
    fact="the default scale 1/sqrt(D) is missing",
    question="What does scale=None mean?",
)
known.change(
    "scale-forgotten",
    ("*some, scale, mask)", "*some, None, mask)"),
    fact="a given scale is ignored",
    question="Where is `scale` applied?",
)
known.change(
    "last-queries-lost",
    ("range(0, length, block_size)", "range(0, max(block_size, length - length % block_size), block_size)"),
    fact="a partly filled last tile of queries is left out",
    question="Eleven queries in tiles of four: how many tiles are there?",
)
known.change(
    "all-blocks-waiting",
    ("mx.eval(blocks[-1])", "pass"),
    fact="nothing is evaluated before the end, so all tiles are in memory at once",
    question="When does MLX compute your first tile, and when may it free its scores?",
)
known.change(
    "float32-result",
    ("return mx.concatenate(blocks, axis=-2)", "return mx.concatenate(blocks, axis=-2).astype(mx.float32)"),
    fact="the result is float32 although the query is not",
    question="What is the dtype of your result?",
)
known.change(
    "more-queries-than-keys",
    ("if length > keys:", "if False:"),
    ("before = keys - length", "before = max(0, keys - length)"),
    (MASK, WIDE),
    fact="more queries than keys are accepted",
    question="Twelve queries and eleven keys: what is the position of the first query?",
)
known.change(
    "one-sink-too-many",
    ("before = keys - length", "sinks += 1\nbefore = keys - length"),
    fact="one key too many is a sink",
    question="With two sinks, which keys are they?",
)
known.change(
    "later-sinks-loaded",
    ("return x[..., :end, :]", "return x[..., : max(end, sinks), :]"),
    (
        MASK,
        f"mx.pad({MASK.replace('some[0].shape[-2]', 'end if begin <= sinks else some[0].shape[-2]')}, "
        "[(0, 0), (0, some[0].shape[-2] - end if begin <= sinks else 0)], constant_values=-mx.inf)",
    ),
    fact="sinks after a tile's last query are also loaded, and then masked",
    question="Eight sinks, and a first tile of five queries. Which of the sinks does a query of this tile see?",
)


@known.wrong(
    "the-whole-table",
    fact="all L x S scores are in memory at once, including hidden ones",
    question="How many scores does your program store for L queries and S keys?",
)
def the_whole_table(query, key, value, window, sinks=0, scale=None, block_size=64):
    mask = window_mask(query.shape[-2], key.shape[-2], window, sinks, query.dtype)
    return grouped(query, key, value, scale, mask)


@known.accepted("by positions, query head by query head")
def by_places(query, key, value, window, sinks=0, scale=None, block_size=64):
    *_, heads, length, dims = query.shape
    kv_heads, keys = key.shape[-3:-1]
    if length > keys or sinks < 0 or (window is not None and window < 1):
        raise ValueError(f"{length} queries, {keys} keys, window {window}, sinks {sinks}")
    scale = dims**-0.5 if scale is None else scale
    rows = []
    for first in range(0, length, block_size):
        places = list(range(keys - length + first, keys - length + min(length, first + block_size)))
        low = 0 if window is None else places[0] - window + 1
        taken = sorted({*range(min(sinks, places[-1] + 1)), *range(max(0, low), places[-1] + 1)})
        back = mx.array(places)[:, None] - mx.array(taken)
        near = mx.array(True) if window is None else (back < window) | (mx.array(taken) < sinks)
        bias = mx.where((back >= 0) & near, 0.0, -mx.inf)
        q = query[..., first : first + block_size, :].astype(mx.float32)
        found = []
        for h in range(heads):
            k, v = (x[..., h * kv_heads // heads, mx.array(taken), :].astype(mx.float32) for x in (key, value))
            weights = mx.softmax(q[..., h, :, :] @ k.swapaxes(-1, -2) * scale + bias, axis=-1)
            found.append(weights @ v)
        rows.append(mx.stack(found, axis=-3).astype(query.dtype))
        mx.eval(rows[-1])
    return mx.concatenate(rows, axis=-2)
