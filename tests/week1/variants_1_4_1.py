"""Reference variants of task 1.4.1, RMSNorm."""

import math

import mlx.core as mx
from tiny_llm_solution.layer_norm import RMSNorm

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.4.1")


def norm(program, seed, *shape, eps=(1e-5,), dtype=mx.float32, weights=None, spread=1.0, shift=0.0):
    draw = normals(seed, dtype)
    return program(5, draw(5).astype(weights or dtype), *eps)(draw(*shape, 5, spread=spread) + shift)


OFFSETS = mx.array([300, -400, 500, -600, 700], dtype=mx.float16)

known.probe_table(
    plain=lambda program: norm(program, 11, 2, 3, eps=[1e-6], spread=2.0, shift=1),
    large_eps=lambda program: norm(program, 12, 3, eps=[0.3]),
    default_eps=lambda program: norm(program, 13, 3, eps=[], spread=0.003),
    tiny_vectors=lambda program: norm(program, 20, 3, eps=[2.0], spread=0.5),
    vector=lambda program: norm(program, 16),
    as_many_tokens_as_features=lambda program: norm(program, 17, 5),
    narrow_weight=lambda program: norm(program, 18, 3, weights=mx.float16),
)
known.probe_table(
    mx.float16,
    half=lambda program: tuple(
        norm(program, 14, 3, dtype=mx.float16, weights=weights) for weights in (mx.float16, mx.float32)
    ),
    # Every square fits into float16, but not their sum.
    half_sum=lambda program: norm(program, 19, 3, dtype=mx.float16, shift=OFFSETS / 4),
    half_large=lambda program: norm(program, 15, 3, dtype=mx.float16, shift=OFFSETS),
)


@known.sized("x 1,024 x 1,024, float32")
def sized(program):
    draw = normals(1)
    x, norm = draw(1024, 1024), program(1024, draw(1024))
    return lambda: norm(x)


known.change(
    "mean-subtracted",
    ("scale = mx.rsqrt", "wide = wide - mx.mean(wide, axis=-1, keepdims=True)\nscale = mx.rsqrt"),
    fact="the mean of each vector is subtracted first, as LayerNorm does",
    question="What should the result be for a vector whose elements are all 3?",
)
known.change(
    "eps-outside-the-root",
    ("mx.rsqrt(", "1 / (mx.sqrt("),
    (" + self.eps", ") + self.eps"),
    fact="eps is added to the root instead of to the mean square under it",
    question="What is the divisor for a vector of zeros and eps = 1e-6: one thousandth, or one millionth?",
)
known.change(
    "eps-left-out",
    (" + self.eps", ""),
    fact="eps is missing",
    question="What does your code return for a vector of zeros?",
)
for name, eps in (("eps-fixed", "1e-5"), ("eps-fixed-at-1e-6", "1e-6")):
    known.change(
        name,
        ("= weight, eps", f"= weight, {eps}"),
        fact=f"eps is always {eps}, and the caller's eps is ignored",
        question="What does __init__ do with `eps`?",
    )
known.change(
    "input-dtype-statistics",
    ("x.astype(mx.float32)", "x"),
    fact="the squares and their mean are computed in x's own dtype",
    question="What are 300 * 300 and 0.0001 * 0.0001 in float16?",
)
known.change(
    "float32-result",
    ("(wide * scale).astype(x.dtype)", "(wide * scale)"),
    fact="the result stays float32 although x has another dtype",
    question="Where do you convert back to the dtype of x?",
)
known.change(
    "weight-decides-the-dtype",
    ("self.weight.astype(x.dtype)", "self.weight"),
    fact="a float32 weight promotes a float16 result to float32",
    question="What is float16 * float32, and when did that multiplication happen?",
)
known.change(
    "sum-of-squares",
    ("mx.mean(", "mx.sum("),
    fact="the squares are summed instead of averaged",
    question="What are the length and the root mean square of a vector of four ones?",
)
known.change(
    "no-root",
    ("mx.rsqrt(", "1 / ("),
    fact="the vectors are divided by the mean square, without the root",
    question="What should happen to the result when x is doubled?",
)
known.change(
    "mean-of-absolute-values",
    ("mx.rsqrt(mx.mean(mx.square(", "1 / (mx.mean(mx.abs("),
    fact="the mean of absolute values replaces the root mean square",
    question="What is the root mean square of 0 and 2, and what is their mean?",
)
known.change(
    "one-mean-for-everything",
    (", axis=-1, keepdims=True", ""),
    fact="one mean is taken over the whole array",
    question="How many means does a 2 x 3 x 5 array need, if each vector of 5 has its own?",
)
known.change(
    "mean-over-tokens",
    ("axis=-1", "axis=-2"),
    fact="the mean runs over the tokens, with one mean per feature",
    question="Should a token's result change when another token does?",
)
known.change(
    "no-weight",
    (" * self.weight.astype(x.dtype)", ""),
    fact="the weight is not used",
    question="What does __init__ receive besides dim and eps?",
)
known.change(
    "weight-plus-one",
    ("self.weight.astype(x.dtype)", "(1 + self.weight.astype(x.dtype))"),
    fact="the result is multiplied by 1 + weight, as in Gemma",
    question="What should a weight of zeros return?",
)
known.change(
    "weight-before-the-norm",
    ("x.astype(mx.float32)", "x.astype(mx.float32) * self.weight"),
    (" * self.weight.astype(x.dtype)", ""),
    fact="x is multiplied by the weight before its mean square is computed",
    question="If every weight is 10, should the result be ten times as large?",
)
known.change(
    "mean-without-its-axis",
    ("axis=-1, keepdims=True", "axis=-1"),
    fact="the means have lost the reduced axis and broadcast along a different one",
    question="x is 3 x 5. What is the shape of its vectors' means, and with which axis of x do they broadcast?",
)
known.change(
    "result-in-the-weight's-dtype",
    (".astype(x.dtype) * self.weight.astype(x.dtype)", ".astype(self.weight.dtype) * self.weight"),
    fact="the vectors are converted to the weight's dtype before the multiplication, and stay there",
    question="x is float32 and the weight float16. Which of the two determines the dtype of the result?",
)
known.change(
    "multiplied-by-the-root",
    ("mx.rsqrt(", "mx.sqrt("),
    fact="the vectors are multiplied by the root mean square instead of divided",
    question="Should the result of a long vector be longer than that of a short one?",
)
known.change(
    "variance",
    ("mx.mean(mx.square(wide), axis=-1, keepdims=True)", "mx.var(wide, axis=-1, keepdims=True)"),
    fact="the variance replaces the mean square",
    question="What are the variance and the mean square of 3, 3 and 3?",
)
known.change(
    "squares-in-half",
    ("mx.square(wide)", "mx.square(x).astype(mx.float32)"),
    fact="the squares are computed in x's own dtype, and only their mean in float32",
    question="What is 300 * 300 in float16, and does a conversion afterwards change it?",
)
known.change(
    "eps-as-a-minimum",
    (
        "mx.mean(mx.square(wide), axis=-1, keepdims=True) + self.eps",
        "mx.maximum(mx.mean(mx.square(wide), axis=-1, keepdims=True), self.eps)",
    ),
    fact="eps is a lower bound on the mean square instead of being added to it",
    question="With a mean square of 1 and eps = 0.3, which number is under your root?",
)
known.change(
    "eps-as-a-minimum-of-the-root",
    (
        "mx.rsqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True) + self.eps)",
        "1 / mx.maximum(mx.sqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True)), self.eps)",
    ),
    fact="eps is a lower bound on the root mean square instead of being added to the mean square",
    question="With a mean square of 1 and eps = 0.3, by which number do you divide?",
)
known.change(
    "mean-over-all-axes-but-the-first",
    ("axis=-1", "axis=tuple(range(1, x.ndim))"),
    fact="the mean runs over all axes but the first, as if x were always N x dim",
    question="How many means does your code take for x of 2 x 3 x 5, and how many for a single vector of 5?",
)


@known.accepted("division-by-the-root")
class DivisionByTheRoot:
    def __init__(self, dim, weight, eps=1e-5):
        if weight.ndim != 1 or len(weight) != dim:
            raise ValueError(f"the weight is {weight.shape}, expected ({dim},)")
        self.g, self.eps = weight, eps

    def __call__(self, x):
        y = x.astype(mx.float32)
        return (self.g * (y / mx.sqrt((y * y).mean(-1, keepdims=True) + self.eps))).astype(x.dtype)


@known.accepted("einsum")
class Einsum(RMSNorm):
    def __call__(self, x):
        wide = x.astype(mx.float32)
        mean_square = mx.einsum("...d,...d->...", wide, wide)[..., None] / x.shape[-1]
        return (wide * mx.rsqrt(mean_square + self.eps)).astype(x.dtype) * self.weight.astype(x.dtype)


@known.accepted("norm-over-root-of-dim")
class NormOverRootOfDim(RMSNorm):
    def __call__(self, x):
        wide, dim = x.astype(mx.float32), x.shape[-1]
        length = mx.linalg.norm(wide, axis=-1, keepdims=True)
        scale = math.sqrt(dim) / mx.sqrt(length * length + dim * self.eps)
        return (wide * scale).astype(x.dtype) * self.weight.astype(x.dtype)
