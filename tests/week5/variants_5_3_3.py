"""Known programs of task 5.3.3, the gradients of RMSNorm."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.3")


def inputs(seed, dtype=mx.float32, leading=(2, 3), size=5, eps=1e-5):
    draw = normals(seed, dtype)
    return draw(*leading, size), 1 + draw(size, spread=0.5), eps, draw(*leading, size)


known.probe_table(
    sequences=lambda program: program(*inputs(1)),
    tokens=lambda program: program(*inputs(2, leading=(4,))),
    one_token=lambda program: program(*inputs(3, leading=())),
    large_eps=lambda program: program(*inputs(4, eps=0.5)),
    weight_of_ones=lambda program: program(normals(5)(4, 5), mx.ones(5), 1e-5, normals(50)(4, 5)),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(*inputs(6, mx.float16)),
    half_of_large=lambda program: program(*(a if isinstance(a, float) else 300 * a for a in inputs(7, mx.float16))),
    weights_near_1=lambda program: program(
        x := normals(9, mx.float16)(2, 16), 1 + normals(90)(16, spread=1e-4), 1e-9, x
    )[0],
    half_weights_near_1=lambda program: program(
        x := normals(10, mx.float16)(2, 16), (1 + mx.arange(16) / 1024).astype(mx.float16), 1e-9, x
    )[0],
    float32_weight=lambda program: program(*inputs(8, mx.float16)[:1], normals(80)(5), 1e-5, inputs(8, mx.float16)[3]),
)


@known.probe()
def norm_refused(program):
    x, weight, eps, _ = inputs(9)
    return refusals(lambda shape: program(x, weight, eps, mx.ones(shape)), [(3, 5), (2, 3, 1), (5,), (2, 3, 4)])


@known.sized("x 2,048 x 256, float32")
def sized(program):
    given = inputs(1, leading=(2048,), size=256)
    mx.eval([a for a in given if isinstance(a, mx.array)])
    return lambda: list(program(*given))


DN = "dn = d * weight.astype(mx.float32)"
DX = "dx = scale * (dn - normalized * mx.mean(dn * normalized, axis=-1, keepdims=True))"
DWEIGHT = "dweight = mx.sum((d * normalized).reshape(-1, x.shape[-1]), axis=0)"
known.change(
    "weight-in-x-dtype",
    ("dn = d * weight.astype(mx.float32)", "dn = d * weight.astype(x.dtype).astype(mx.float32)"),
    fact="a float32 weight is rounded to x's dtype first",
    question="What is left of the weight 1.0001 in float16?",
)
known.change(
    "scale-held-constant",
    (DX, "dx = scale * dn"),
    fact="the scale is treated as a constant, and the part of the gradient that goes through it is missing",
    question="Multiply x by 2. How does the output change? And what does your dx, times x, say?",
)
known.change(
    "weight-missing",
    (DN, "dn = d"),
    fact="dx does not contain the weight",
    question="A feature has the weight 0. Can its gradient reach x?",
)
known.change(
    "weight-missing-in-the-mean",
    (DX, DX.replace("mx.mean(dn *", "mx.mean(d *")),
    fact="the mean is that of dy * n instead of dy * weight * n",
    question="Which gradient reaches the normalized vector: dy, or dy times the weight?",
)
known.change(
    "sum-for-the-mean",
    (DX, DX.replace("mx.mean(", "mx.sum(")),
    fact="the part through the scale is summed over the features instead of averaged",
    question="The scale is made of a mean of squares. What is the derivative of a mean of E squares by one of them?",
)
known.change(
    "mean-of-dn",
    (DX, DX.replace("mx.mean(dn * normalized,", "mx.mean(dn,").replace("normalized * mx", "mx")),
    fact="the mean of dn is subtracted, as in LayerNorm's centering",
    question="Which direction has no gradient in RMSNorm: the vector x, or the vector of ones?",
)
known.change(
    "x-for-the-normalized",
    (DWEIGHT, DWEIGHT.replace("d * normalized", "d * wide")),
    fact="dweight is made of x instead of the normalized x",
    question="What is multiplied by the weight in the forward pass?",
)
known.change(
    "dweight-averaged",
    (DWEIGHT, DWEIGHT.replace("mx.sum", "mx.mean")),
    fact="dweight is the mean over the tokens instead of the sum",
    question="If all tokens are there twice, by how much does the loss's dependence on the weight change?",
)
known.change(
    "dweight-over-the-first-axis",
    (DWEIGHT, "dweight = mx.sum(d * normalized, axis=0)"),
    fact="dweight is summed over the first axis alone, however many axes x has",
    question="How many weight vectors does the norm have?",
)
known.change(
    "eps-outside-the-root",
    (
        "scale = mx.rsqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True) + eps)",
        "scale = 1 / (mx.sqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True)) + eps)",
    ),
    fact="eps is added after the root instead of under it",
    question="Where does the forward pass add eps?",
)
known.change(
    "in-the-input-dtype",
    ("x.astype(mx.float32), dy.astype(mx.float32)", "x, dy"),
    ("weight.astype(mx.float32)", "weight.astype(x.dtype)"),
    fact="all is computed in x's dtype, in which squares of large numbers overflow",
    question="What is 300 squared in float16?",
)
known.change(
    "dn-rounded",
    (DN, "dn = (dy * weight).astype(mx.float32)"),
    fact="dy * weight is rounded to their dtype",
    question="How often is dx rounded on the way to its dtype?",
)
known.change(
    "normalized-and-products-rounded",
    (DN, "dn = (dy * weight).astype(mx.float32)"),
    ("normalized = wide * scale", "normalized = (wide * scale).astype(x.dtype).astype(mx.float32)"),
    (DWEIGHT, DWEIGHT.replace("d * normalized", "(dy * normalized.astype(x.dtype)).astype(mx.float32)")),
    fact="the normalized x is rounded to x's dtype, as in the forward pass, and so are the products with dy",
    question="How often is each result rounded on the way to its dtype?",
)
known.change(
    "eps-missing-in-the-projection",
    (
        DX,
        """
        share = mx.sum(dn * wide, axis=-1, keepdims=True) / mx.sum(wide * wide, axis=-1, keepdims=True)
        dx = scale * (dn - wide * share)
        """,
    ),
    fact="the part of dn along x is removed completely, as if eps were 0, which is NaN for a zero vector",
    question="What is mean(n * n) if eps is as large as mean(x * x)?",
)
known.change(
    "shapes-not-checked",
    ("_check_dy(dy, x.shape)", ""),
    fact="dy's shape is not checked, and a shape that broadcasts is accepted",
    question="x is 2 x 3 x 5 and dy is 3 x 5. Does MLX raise an error?",
)


@known.accepted("by the cube of the scale")
def cubed(x, weight, eps, dy):
    if dy.shape != x.shape:
        raise ValueError(f"dy has shape {dy.shape}, x has {x.shape}")
    a, d, w = x.astype(mx.float32), dy.astype(mx.float32), weight.astype(mx.float32)
    s = 1 / mx.sqrt((a * a).mean(axis=-1, keepdims=True) + eps)
    dx = s * (d * w - a * s * (d * w * a * s).sum(axis=-1, keepdims=True) / x.shape[-1])
    dw = mx.einsum("ne,ne->e", d.reshape(-1, x.shape[-1]), (a * s).reshape(-1, x.shape[-1]))
    return dx.astype(x.dtype), dw.astype(weight.dtype)
