"""Known programs of task 5.3.5, the gradients of attention."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import mask_of, normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.5")


def inputs(seed, dtype=mx.float32, leading=(2,), H=6, H_kv=2, L=3, S=5, D=4):
    draw = normals(seed, dtype)
    query, key, value = draw(*leading, H, L, D), draw(*leading, H_kv, S, D), draw(*leading, H_kv, S, D)
    return query, key, value, draw(*leading, H, L, D)


VISIBLE = mx.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [0, 1, 0, 0, 0]]) == 1
NO_KEY = mx.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]) == 1

known.probe_table(
    no_mask=lambda program: program(*inputs(1)),
    one_head_each=lambda program: program(*inputs(2, H_kv=6)),
    one_head_for_all=lambda program: program(*inputs(3, H_kv=1)),
    square=lambda program: program(*inputs(4, L=4, S=4)),
    own_scale=lambda program: program(*inputs(5), 0.3),
    causal=lambda program: program(*inputs(6), None, "causal"),
    bias=lambda program: program(*inputs(7), None, mask_of("bias", 70, mx.float32, 6, 3, 5)),
    boolean=lambda program: program(*inputs(8), None, VISIBLE),
    fully_masked=lambda program: program(*inputs(9), None, NO_KEY),
    one_key=lambda program: program(*inputs(10, S=1)),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(*inputs(11, mx.float16)),
    # all values near 200: the gradients are small differences of large numbers
    half_of_large=lambda program: program(*(200 * (i == 2) + a for i, a in enumerate(inputs(12, mx.float16)))),
)


@known.probe()
def attention_refused(program):
    query, key, value, _ = inputs(13)
    return refusals(lambda shape: program(query, key, value, mx.ones(shape)), [(6, 3, 4), (2, 6, 1, 4), (2, 2, 3, 4)])


@known.probe()
def uneven_heads_refused(program):
    return refusals(lambda heads: program(*inputs(14, H_kv=heads)), [4, 5])


@known.sized("8 heads, 2 key-value heads, L and S 128, D 64, float32")
def sized(program):
    given = inputs(1, leading=(), H=8, H_kv=2, L=128, S=128, D=64)
    mx.eval(given)
    return lambda: list(program(*given))


DSCORES = "dscores = weights * (dweights - mx.sum(weights * dweights, axis=-1, keepdims=True)) * scale"
UNMASKED = "return mx.where(masked, 0.0, softmax(mx.where(masked, 0.0, scores), axis=-1))"
known.change(
    "scale-missing",
    (DSCORES, DSCORES.removesuffix(" * scale")),
    fact="the scale is missing in the gradients of query and key",
    question="The scores are query @ key.T * scale. What is their derivative by a query?",
)
known.change(
    "softmax-slope-of-one-weight",
    (DSCORES, "dscores = weights * dweights * scale"),
    fact="in the softmax's gradient the sum is missing, as if each weight depended on its own score alone",
    question="A score rises. What happens to the other weights of its row?",
)
known.change(
    "softmax-as-sigmoid",
    (DSCORES, "dscores = weights * (1 - weights) * dweights * scale"),
    fact="the softmax's gradient is weights * (1 - weights) * dweights, which has only its diagonal",
    question="A score rises, and another weight falls. Where does your code account for that one?",
)
known.change(
    "softmax-over-the-queries",
    (DSCORES, DSCORES.replace("axis=-1", "axis=-2")),
    fact="in the softmax's gradient the sum runs over the queries instead of the keys",
    question="Which weights sum to one: those of a query, or those of a key?",
)
known.change(
    "group-averaged",
    ("dvalue = mx.sum(", "dvalue = mx.mean("),
    ("dkey = mx.sum(", "dkey = mx.mean("),
    fact="a key-value head gets the mean over the query heads that read it instead of the sum",
    question="Three query heads read one key. Moving the key moves three scores. Is that one effect, or three?",
)
known.change(
    "first-head-of-the-group",
    (
        "dvalue = mx.sum(weights.swapaxes(-1, -2) @ dheads, axis=-3)",
        "dvalue = (weights.swapaxes(-1, -2) @ dheads)[..., 0, :, :]",
    ),
    ("dkey = mx.sum(dscores.swapaxes(-1, -2) @ q, axis=-3)", "dkey = (dscores.swapaxes(-1, -2) @ q)[..., 0, :, :]"),
    fact="a key-value head gets the gradient of the first query head of its group only",
    question="Three query heads read one key. Which of them does your dkey depend on?",
)
known.change(
    "weights-not-transposed-when-square",
    (
        "dvalue = mx.sum(weights.swapaxes(-1, -2) @ dheads, axis=-3)",
        "square = weights.shape[-1] == weights.shape[-2]\n"
        "dvalue = mx.sum((weights if square else weights.swapaxes(-1, -2)) @ dheads, axis=-3)",
    ),
    fact="dvalue is weights @ dy where L = S, without the transpose",
    question="Value 0 goes into every output. Which weights are they: those of row 0, or of column 0?",
)
known.change(
    "mask-forgotten",
    (
        "weights = _weights((q @ k.swapaxes(-1, -2)) * scale, mask)",
        "weights = _weights((q @ k.swapaxes(-1, -2)) * scale, None)",
    ),
    fact="the mask is ignored, so gradients flow to hidden keys",
    question="Key 4 is hidden from query 0. Does moving key 4 change the output of query 0?",
)
known.change(
    "boolean-mask-inverted",
    ("mx.where(mask, scores, -mx.inf)", "mx.where(mask, -mx.inf, scores)"),
    fact="a boolean mask is inverted: True hides a key",
    question="What does True mean in the docstring's mask?",
)
known.change(
    "causal-from-the-first-key",
    (
        "mask = causal_mask(length, keys, mx.float32)",
        "mask = mx.where(mx.arange(keys) <= mx.arange(length)[:, None], 0.0, -mx.inf)",
    ),
    fact='"causal" aligns the first query with the first key instead of the last with the last',
    question="Three queries and five keys. Which keys does the last query see?",
)
known.change(
    "fully-masked-row-is-nan",
    (UNMASKED, "return softmax(scores, axis=-1)"),
    fact="a fully masked row is NaN, and so are the gradients of all keys and values",
    question="All scores of a row are -inf. What is the maximum, and what is each score minus that?",
)
known.change(
    "scale-missing-for-the-query",
    ("(q @ k.swapaxes(-1, -2)) * scale", "(q * scale) @ k.swapaxes(-1, -2)"),
    (DSCORES, DSCORES.removesuffix(" * scale")),
    ("@ q, axis=-3)", "@ (q * scale), axis=-3)"),
    fact="the scale is missing in the gradient of query, but not in that of key",
    question="dscores @ key is the gradient of the query that was multiplied by key. Which one was that?",
)
known.change(
    "fully-masked-row-is-uniform",
    (UNMASKED, "return softmax(mx.maximum(scores, -1e9), axis=-1)"),
    fact="hidden scores are a large negative number, so that a fully masked row gives each key the same weight",
    question="All scores of a row are -1e9. What is the maximum, and what is each score minus that?",
)
known.change(
    "groups-in-turn",
    (
        "dvalue = mx.sum(weights.swapaxes(-1, -2) @ dheads, axis=-3)",
        "dvalue = (weights.swapaxes(-1, -2) @ dheads).flatten(-4, -3)\n"
        "dvalue = mx.unflatten(dvalue, -3, (-1, kv_heads)).sum(axis=-4)",
    ),
    (
        "dkey = mx.sum(dscores.swapaxes(-1, -2) @ q, axis=-3)",
        "dkey = (dscores.swapaxes(-1, -2) @ q).flatten(-4, -3)\n"
        "dkey = mx.unflatten(dkey, -3, (-1, kv_heads)).sum(axis=-4)",
    ),
    fact="the gradients of key and value are summed as if query head h had read key-value head h % H_kv",
    question="With six query heads and two key-value heads, which three query heads read key-value head 0?",
)
known.change(
    "in-the-input-dtype",
    ("mx.unflatten(a.astype(mx.float32), -3, (kv_heads, -1))", "mx.unflatten(a, -3, (kv_heads, -1))"),
    ("(a.astype(mx.float32)[..., None, :, :] for a in (key, value))", "(a[..., None, :, :] for a in (key, value))"),
    fact="all is computed in the arrays' dtype instead of float32",
    question="In float16, how many digits of a weight are left after the mean is subtracted?",
)


@known.accepted("head by head, the keys repeated")
def head_by_head(query, key, value, dy, scale=None, mask=None):
    heads, length, dims = query.shape[-3:]
    if heads % key.shape[-3] or dy.shape != query.shape:
        raise ValueError(f"query {query.shape}, H {heads}, H_kv {key.shape[-3]}, dy {dy.shape}")
    group, keys = heads // key.shape[-3], key.shape[-2]
    scale = 1 / dims**0.5 if scale is None else scale
    q, k, v, d = (a.astype(mx.float32) for a in (query, key, value, dy))
    k, v = mx.repeat(k, group, axis=-3), mx.repeat(v, group, axis=-3)
    if isinstance(mask, str):
        mask = mx.arange(keys) <= mx.arange(keys - length, keys)[:, None]
    if mask is None:
        mask = mx.array(True)
    bias = mx.where(mask, 0.0, -mx.inf) if mask.dtype == mx.bool_ else mask.astype(mx.float32)
    scores = mx.einsum("...ld,...sd->...ls", q, k) * scale + bias
    largest = mx.maximum(mx.max(scores, axis=-1, keepdims=True), -1e30)
    e = mx.exp(scores - largest)
    weights = e / mx.maximum(e.sum(axis=-1, keepdims=True), 1e-30)
    delta = (d * (weights @ v)).sum(axis=-1, keepdims=True)
    dscores = weights * (mx.einsum("...ld,...sd->...ls", d, v) - delta) * scale

    def shared(a):
        return mx.unflatten(a, -3, (-1, group)).sum(axis=-3).astype(query.dtype)

    dq = mx.einsum("...ls,...sd->...ld", dscores, k)
    dk, dv = (mx.einsum("...ls,...ld->...sd", a, b) for a, b in ((dscores, q), (weights, d)))
    return dq.astype(query.dtype), shared(dk), shared(dv)


known.accepted_change(
    "the scale on the query",
    ("(q @ k.swapaxes(-1, -2)) * scale", "(q * scale) @ k.swapaxes(-1, -2)"),
    (DSCORES, DSCORES.removesuffix(" * scale")),
    ("dquery = (dscores @ k)", "dquery = (dscores @ k * scale)"),
    ("@ q, axis=-3)", "@ (q * scale), axis=-3)"),
)
