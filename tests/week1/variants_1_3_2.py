"""Reference variants of task 1.3.2, grouped attention."""

import mlx.core as mx
from tiny_llm_solution.attention import causal_mask
from tiny_llm_solution.attention import scaled_dot_product_attention_simple as attend

from tiny_llm_course.testkit.inputs import causal, drawn, normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.3.2")


def inputs(seed, dtype=mx.float32, rows=4, keys=5, kv_heads=2):
    """H = 6, H_kv = 2: a group of 3."""
    return drawn(seed, (rows, 6, 3, 8), (rows, kv_heads, keys, 8), (rows, kv_heads, keys, 8), dtype=dtype)


known.probe_table(
    plain=lambda program: program(*inputs(21)),
    given_scale=lambda program: (program(*inputs(22), scale=0.7), program(*inputs(22), scale=0.0)),
    causal=lambda program: program(*inputs(23), mask="causal"),
    causal_square=lambda program: program(*inputs(24, keys=3), mask="causal"),
    full_mask=lambda program: program(*inputs(27), mask=normals(270)(4, 6, 3, 5)),
    mask=lambda program: tuple(
        program(*inputs(25), mask=2 * mask) for mask in drawn(250, (3, 5), (6, 3, 5), (4, 6, 3, 5))
    ),
    mask_for_all_heads=lambda program: program(*inputs(30), mask=normals(300)(4, 1, 3, 5)),
    mask_of_each_head=lambda program: program(*inputs(25), mask=normals(251)(6, 3, 5)),
    no_group=lambda program: tuple(
        program(*inputs(28, kv_heads=6), mask=mask) for mask in (None, normals(280)(4, 6, 3, 5))
    ),
    one_row=lambda program: program(*inputs(29, rows=1), mask=normals(290)(3, 5)),
)
known.probe_table(
    mx.float16,
    half=lambda program: tuple(
        program(*inputs(26, mx.float16), scale, mask)
        for scale, mask in ((None, None), (None, causal(3, 5, mx.float32)), (0.7, None))
    ),
)


@known.sized("192 tokens, H 6, H_kv 2, D 64, float32")
def sized(program):
    three = drawn(1, (1, 6, 192, 64), (1, 2, 192, 64), (1, 2, 192, 64))
    return lambda: program(*three, mask="causal")


FOLDED = "group = heads // kv_heads\nmask = mx.tile(({}).reshape(group, length, keys), (kv_heads, 1, 1))"
known.change(
    "tile",
    ("mx.unflatten(query, -3, (kv_heads, -1))", "mx.unflatten(query, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    ("mx.unflatten(mask, -3, (kv_heads, -1))", "mx.unflatten(mask, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    ("attended.flatten(", "attended.swapaxes(-4, -3).flatten("),
    fact="query head h reads key-value head h % H_kv, a round-robin assignment",
    question="With six query heads and two key-value heads, which one should query head 1 read?",
)
known.change(
    "group-before-kv-head",
    ("mx.unflatten(query, -3, (kv_heads, -1))", "mx.unflatten(query, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    ("mx.unflatten(mask, -3, (kv_heads, -1))", "mx.unflatten(mask, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    fact="the query heads are split with the group axis first, and joined with the key-value head axis first",
    question="After your two reshapes, does query head 1 come back as output head 1?",
)
known.change(
    "joined-in-another-order",
    ("attended.flatten(", "attended.swapaxes(-4, -3).flatten("),
    fact="the output heads are permuted: they are joined with the group axis outermost",
    question="The query heads are split as H_kv x H/H_kv. In which order are the two axes when you join them?",
)
known.change(
    "not-joined",
    ("attended.flatten(-4, -3)", "attended"),
    fact="the result still has the two axes H_kv x H/H_kv in place of H",
    question="What is the shape of the query, and what is the shape of your result?",
)
known.change(
    "first-kv-head-only",
    ("key[..., None, :, :]", "key[..., :1, None, :, :]"),
    ("value[..., None, :, :]", "value[..., :1, None, :, :]"),
    fact="every query head reads key-value head 0",
    question="Change the last key-value head. Which outputs should change?",
)
known.change(
    "value-head-tiled",
    ("value[..., None, :, :]", "mx.unflatten(value[..., mx.arange(heads) % kv_heads, :, :], -3, (kv_heads, -1))"),
    fact="the keys come from head h // (H / H_kv), but the values from head h % H_kv",
    question="Do your keys and your values reach a query head in the same way?",
)
known.change(
    "causal-ignored",
    ("mask = causal_mask(length, keys, query.dtype)", "mask = None"),
    fact='mask="causal" masks nothing',
    question="Where does your code turn the string into an array?",
)
known.change(
    "causal-upper-left",
    (
        "mask = causal_mask(length, keys, query.dtype)",
        "if length > keys:\n    raise ValueError(length)\nmask = mx.triu(mx.full((length, keys), -mx.inf), k=1)",
    ),
    fact='mask="causal" lets query i see keys 0 to i, as if the queries were the first L of the S positions',
    question="With three queries and five keys, which is the last key that the last query may see?",
)
known.change(
    "causal-repeated-for-a-folded-group",
    (
        "mask = causal_mask(length, keys, query.dtype)",
        FOLDED.format("causal_mask(length, keys, mx.float32)[mx.arange(group * length) // group]"),
    ),
    fact="a group's queries are folded into the length axis, and each row of the causal mask is repeated in place",
    question="Which query is in row 1 of your folded axis: query 1 of the first head, or query 0 of the second?",
)
known.change(
    "causal-through-a-folded-group",
    (
        "mask = causal_mask(length, keys, query.dtype)",
        "causal_mask(length, keys, mx.float32)\n"
        + FOLDED.format("mx.triu(mx.full((group * length, keys), -mx.inf), k=1 + keys - length)"),
    ),
    fact="a group's queries are folded into the length axis, and their positions are counted through all of its heads",
    question="Which position has the first query of a group's second head?",
)
known.change(
    "always-causal",
    ("if isinstance(mask, str):", 'mask = "causal" if mask is None else mask\nif isinstance(mask, str):'),
    fact="the future is masked even when mask is None",
    question="What does mask=None mean?",
)
known.change(
    "array-mask-ignored",
    ("if isinstance(mask, str):", "mask = mask if isinstance(mask, str) else None\nif isinstance(mask, str):"),
    fact="an array mask is ignored",
    question='Which kinds of mask are there besides None and "causal"?',
)
known.change(
    "mask-dealt-out",
    ("mx.unflatten(mask, -3, (kv_heads, -1))", "mx.unflatten(mask, -3, (-1, kv_heads)).swapaxes(-4, -3)"),
    fact="a mask with a head axis is split as H/H_kv x H_kv, so query heads get each other's masks",
    question="Query head 1 is at [0, 1] of H_kv x H/H_kv. Where does your code look for its mask?",
)
known.change(
    "mask-before-scale",
    (
        "scale,\nmask,",
        "scale,\nmask if mask is None else mask * (query.shape[-1] ** -0.5 if scale is None else scale),",
    ),
    fact="the mask is added before the scores are scaled",
    question="With D = 64, how much of a mask entry of -2 survives the scaling?",
)
known.change(
    "scale-by-all-heads",
    ("scale,", "(heads * query.shape[-1]) ** -0.5 if scale is None else scale,"),
    fact="the default scale is 1/sqrt(H * D)",
    question="How many features does one dot product sum over?",
)
known.change(
    "no-scale",
    ("scale,", "1.0 if scale is None else scale,"),
    fact="the default scale 1/sqrt(D) is missing",
    question="What does scale=None mean, here and on day 1?",
)
known.change(
    "scale-0-is-default",
    ("        scale,\n", "        scale or None,\n"),
    fact="a scale of 0 is treated as no scale given",
    question="What does `scale or default` give for 0.0?",
)
known.change(
    "scale-ignored",
    ("scale,", "None,"),
    fact="the scale is always 1/sqrt(D), and the caller's scale is ignored",
    question="What should scale=0.7 change?",
)
known.change(
    "float32-result",
    ("attended.flatten(-4, -3)", "attended.flatten(-4, -3).astype(mx.float32)"),
    fact="the result is float32 although the query is not",
    question="Which of your factors is a float32 array: a scale, a mask, or a cast?",
)
known.change(
    "mask-dtype",
    ("attended.flatten(", "attended.astype(mx.result_type(query, query if mask is None else mask)).flatten("),
    fact="a float32 mask promotes a float16 result to float32",
    question="What is float16 + float32, and when did that addition happen?",
)
known.change(
    "scale-dtype",
    (
        "attended.flatten(",
        "attended.astype(mx.result_type(query, mx.array(0.5) if scale is None else query if mask is None else mask))"
        ".flatten(",
    ),
    fact="the default scale is a float32 array, which promotes a float16 result to float32",
    question="What does mx.sqrt return: a Python float or an array, and of which dtype?",
)
RESHAPED = "if isinstance(mask, mx.array):\n    mask = mask.reshape({})\nif isinstance(mask, str):"
known.change(
    "mask-reshaped",
    ("if isinstance(mask, str):", RESHAPED.format("*query.shape[:-2], length, keys")),
    fact="a mask array is reshaped to the scores' shape instead of being broadcast",
    question="How many elements does an L x S mask have, and how many an N x H x L x S one?",
)
known.change(
    "heads-of-the-mask-reshaped",
    ("if isinstance(mask, str):", RESHAPED.format("*mask.shape[:-3], heads, *mask.shape[-2:]")),
    fact="the head axis of a mask array is split without broadcasting the mask to H heads first",
    question="How many heads does an L x S mask have before you split them?",
)
known.change(
    "mask-not-split",
    ("mask = mx.broadcast_to(mask, (*query.shape[:-2], length, keys))", "pass"),
    ("mask = mx.unflatten(mask, -3, (kv_heads, -1))", "pass"),
    fact="the mask is added to scores of N x H_kv x H/H_kv x L x S without splitting its head axis",
    question="Align the shapes of your scores and of an N x H x L x S mask from the right. Which axes meet?",
)
known.change(
    "mask-expanded",
    ("mask = mx.broadcast_to(mask, (*query.shape[:-2], length, keys))", "pass"),
    ("mx.unflatten(mask, -3, (kv_heads, -1))", "mx.expand_dims(mask, -3)"),
    fact="the mask gets an axis of size 1 for the group, and its head axis is not split",
    question="Which shape do your scores have, and which of their axes belong to the H heads of a mask?",
)
known.change(
    "mask-indexed",
    ("if isinstance(mask, str):", "given = isinstance(mask, mx.array)\nif isinstance(mask, str):"),
    ("if mask is not None:", "if given:\n    mask = mask[:, :, None]\nelif mask is not None:"),
    fact="the mask gets an axis for the group in third place, whatever its number of dimensions",
    question="Which axes does `mask[:, :, None]` insert between for a mask of L x S, and for one of N x H x L x S?",
)
known.change(
    "head-by-head",
    ("mx.unflatten(query, -3, (kv_heads, -1))", "query"),
    ("key[..., None, :, :]", "key"),
    ("value[..., None, :, :]", "value"),
    ("mask = mx.unflatten(mask, -3, (kv_heads, -1))", "pass"),
    ("attended.flatten(-4, -3)", "attended"),
    fact="queries and keys are multiplied head by head, as if H_kv were H",
    question="With six query heads and two key-value heads, which key does query head 5 read in your product?",
)
known.change(
    "mask-only-alone",
    ("if mask is not None:", "mask = mask if isinstance(mask, str) or len(query) == 1 else None\nif mask is not None:"),
    fact="a mask is used only when the batch has a single row",
    question="Where does your code check the leading dimensions before it uses the mask?",
)
known.change(
    "heads-not-broadcast",
    ("mask = mx.broadcast_to(mask, (*query.shape[:-2], length, keys))", "pass"),
    (
        "mask = mx.unflatten(mask, -3, (kv_heads, -1))",
        "if mask.ndim > 2:\n    mask = mx.unflatten(mask, -3, (kv_heads, -1))",
    ),
    fact="the head axis of a mask is always split, even if its size is 1",
    question="How do you split an axis of 1 into H_kv x H/H_kv?",
)
known.change(
    "mask-of-head-0",
    ("mask = mx.unflatten(mask, -3, (kv_heads, -1))", "mask = mask[..., :1, None, :, :]"),
    fact="every query head gets head 0's mask",
    question="The mask has six heads. Which of them should query head 5 use?",
)
known.together("group-before-kv-head", "joined-in-another-order", makes="tile")


def spread_mask(query, key, mask):
    """The mask, N x H x L x S or None, after the errors of the docstring."""
    if query.shape[-3] % key.shape[-3] or (isinstance(mask, str) and mask != "causal"):
        raise ValueError("uneven groups, or an unknown mask")
    if isinstance(mask, str):
        mask = causal_mask(query.shape[-2], key.shape[-2], query.dtype)
    return None if mask is None else mx.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))


@known.accepted("group-folded-into-the-length")
def folded(query, key, value, scale=None, mask=None):
    mask = spread_mask(query, key, mask)
    *leading, heads, length, dims = query.shape
    kv_heads, keys = key.shape[-3:-1]
    rows = query.reshape(*leading, kv_heads, heads // kv_heads * length, dims)
    if mask is not None:
        mask = mask.reshape(*leading, kv_heads, heads // kv_heads * length, keys)
    return attend(rows, key, value, scale, mask).reshape(query.shape)


@known.accepted("loop-over-kv-heads")
def loop_over_kv_heads(query, key, value, scale=None, mask=None):
    mask = spread_mask(query, key, mask)
    group, outputs = query.shape[-3] // key.shape[-3], []
    for k in range(key.shape[-3]):
        own = slice(k * group, (k + 1) * group)
        bias = None if mask is None else mask[..., own, :, :]
        one = slice(k, k + 1)
        outputs.append(attend(query[..., own, :, :], key[..., one, :, :], value[..., one, :, :], scale, bias))
    return mx.concatenate(outputs, axis=-3)


@known.accepted("einsum-in-float32")
def grouped_einsum(query, key, value, scale=None, mask=None):
    mask, dtype, kv_heads = spread_mask(query, key, mask), query.dtype, key.shape[-3]
    query, key, value = (x.astype(mx.float32) for x in (query, key, value))
    q = mx.unflatten(query, -3, (kv_heads, -1))
    scores = mx.einsum("...kgld,...ksd->...kgls", q, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores + mx.unflatten(mask, -3, (kv_heads, -1))
    weights = mx.softmax(scores, axis=-1)
    return mx.einsum("...kgls,...ksd->...kgld", weights, value).flatten(-4, -3).astype(dtype)
