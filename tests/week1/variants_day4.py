"""Day 4's known programs: the mistakes that learners make, right programs in other words, and the probes."""

import math

import mlx.core as mx

from tiny_llm_course.checks import normals
from tiny_llm_course.packages import load_solution
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution.basics import linear, silu  # noqa: E402
from tiny_llm_solution.layer_norm import RMSNorm  # noqa: E402
from tiny_llm_solution.qwen3 import Qwen3MLP  # noqa: E402

day = Variants()

# 1.4.1 RMSNorm


class BaseNorm(RMSNorm):
    """The solution in steps that a mistake can replace one at a time."""

    def factor(self, x):  # N.. x 1, what the vectors are multiplied by
        return mx.rsqrt(self.mean_square(x) + self.eps)

    def mean_square(self, x):
        return mx.mean(mx.square(x), axis=-1, keepdims=True)

    def weigh(self, normalised, x):
        return normalised.astype(x.dtype) * self.weight.astype(x.dtype)

    def __call__(self, x):
        wide = x.astype(mx.float32)
        return self.weigh(wide * self.factor(wide), x)


@day.probe("1.4.1")
def norm_plain(program):
    draw = normals(11)
    return program(5, draw(5), 1e-6)(draw(2, 3, 5, spread=2.0) + 1)


@day.probe("1.4.1")
def norm_large_eps(program):
    draw = normals(12)
    return program(5, draw(5), 0.3)(draw(3, 5))


@day.probe("1.4.1")
def norm_default_eps(program):
    draw = normals(13)
    return program(5, draw(5))(draw(3, 5, spread=0.003))


@day.probe("1.4.1", mx.float16)
def norm_half(program):
    draw = normals(14, mx.float16)
    x, weight = draw(3, 5), draw(5)
    return program(5, weight, 1e-5)(x), program(5, weight.astype(mx.float32), 1e-5)(x)


@day.probe("1.4.1", mx.float16)
def norm_half_large(program):
    draw = normals(15, mx.float16)
    return program(5, draw(5), 1e-5)(draw(3, 5) + mx.array([300, -400, 500, -600, 700], dtype=mx.float16))


@day.wrong(
    "1.4.1", "mean-subtracted",
    fact="the mean of each vector is subtracted first, as LayerNorm does",
    question="What should come out for a vector whose numbers are all 3?",
)  # fmt: skip
class MeanSubtracted(BaseNorm):
    def __call__(self, x):
        wide = x.astype(mx.float32)
        return super().__call__(wide - mx.mean(wide, axis=-1, keepdims=True)).astype(x.dtype)


@day.wrong(
    "1.4.1", "eps-outside-the-root",
    fact="eps is added to the root, and not to the mean square under it",
    question="What is divided by for a vector of zeros and eps = 1e-6: one thousandth, or one millionth?",
)  # fmt: skip
class EpsOutsideTheRoot(BaseNorm):
    def factor(self, x):
        return 1 / (mx.sqrt(self.mean_square(x)) + self.eps)


@day.wrong(
    "1.4.1", "eps-left-out",
    fact="eps is left out",
    question="What does a vector of zeros give?",
)  # fmt: skip
class EpsLeftOut(BaseNorm):
    def factor(self, x):
        return mx.rsqrt(self.mean_square(x))


@day.wrong(
    "1.4.1", "eps-fixed",
    fact="eps is always 1e-5, also when the caller gives another one",
    question="Where does the `eps` that __init__ receives go?",
)  # fmt: skip
class EpsFixed(BaseNorm):
    def __init__(self, dim, weight, eps=1e-5):
        super().__init__(dim, weight)


@day.wrong(
    "1.4.1", "input-dtype-statistics",
    fact="the squares and their mean are taken in x's own dtype",
    question="What are 300 * 300 and 0.0001 * 0.0001 in float16?",
)  # fmt: skip
class InputDtypeStatistics(BaseNorm):
    def __call__(self, x):
        return self.weigh(x * self.factor(x), x)


@day.wrong(
    "1.4.1", "float32-result",
    fact="the result stays in float32 although x came in another dtype",
    question="Where do the numbers go back to the dtype that they came in?",
)  # fmt: skip
class NormFloat32(BaseNorm):
    def weigh(self, normalised, x):
        return normalised * self.weight.astype(mx.float32)


@day.wrong(
    "1.4.1", "weight-decides-the-dtype",
    fact="a float32 weight turns a float16 result into float32",
    question="What is float16 * float32, and when did that multiplication happen?",
)  # fmt: skip
class WeightDecidesTheDtype(BaseNorm):
    def weigh(self, normalised, x):
        return normalised.astype(x.dtype) * self.weight


@day.wrong(
    "1.4.1", "sum-of-squares",
    fact="the squares are summed, and not averaged",
    question="How long is a vector of four ones, and what is its root mean square?",
)  # fmt: skip
class SumOfSquares(BaseNorm):
    def mean_square(self, x):
        return mx.sum(mx.square(x), axis=-1, keepdims=True)


@day.wrong(
    "1.4.1", "no-root",
    fact="the vectors are divided by the mean square itself, without a root",
    question="What should happen to the result when x is doubled?",
)  # fmt: skip
class NoRoot(BaseNorm):
    def factor(self, x):
        return 1 / (self.mean_square(x) + self.eps)


@day.wrong(
    "1.4.1", "mean-of-absolute-values",
    fact="the mean of the absolute values takes the place of the root mean square",
    question="What is the root of the mean square of 0 and 2, and what is the mean of the two?",
)  # fmt: skip
class MeanOfAbsoluteValues(BaseNorm):
    def factor(self, x):
        return 1 / (mx.mean(mx.abs(x), axis=-1, keepdims=True) + self.eps)


@day.wrong(
    "1.4.1", "one-mean-for-everything",
    fact="one mean is taken over the whole array",
    question="How many means does an array of 2 x 3 x 5 need, if each vector of 5 has its own?",
)  # fmt: skip
class OneMeanForEverything(BaseNorm):
    def mean_square(self, x):
        return mx.mean(mx.square(x))


@day.wrong(
    "1.4.1", "mean-over-tokens",
    fact="the mean runs over the tokens, one for each feature",
    question="Should a token's result change when its neighbour does?",
)  # fmt: skip
class MeanOverTokens(BaseNorm):
    def mean_square(self, x):
        return mx.mean(mx.square(x), axis=-2, keepdims=True)


@day.wrong(
    "1.4.1", "no-weight",
    fact="the weight is not used",
    question="What is __init__ given besides dim and eps?",
)  # fmt: skip
class NoWeight(BaseNorm):
    def weigh(self, normalised, x):
        return normalised.astype(x.dtype)


@day.wrong(
    "1.4.1", "weight-plus-one",
    fact="the result is multiplied by 1 + weight, as in Gemma",
    question="What should a weight of zeros give?",
)  # fmt: skip
class WeightPlusOne(BaseNorm):
    def weigh(self, normalised, x):
        return normalised.astype(x.dtype) * (1 + self.weight.astype(x.dtype))


@day.wrong(
    "1.4.1", "weight-before-the-norm",
    fact="x is multiplied by the weight before its mean square is taken",
    question="If every weight is 10, should the result be ten times as large?",
)  # fmt: skip
class WeightBeforeTheNorm(BaseNorm):
    def __call__(self, x):
        wide = x.astype(mx.float32) * self.weight.astype(mx.float32)
        return (wide * self.factor(wide)).astype(x.dtype)


@day.accepted("1.4.1", "division-by-the-root")
class DivisionByTheRoot:
    def __init__(self, dim, weight, eps=1e-5):
        if weight.ndim != 1 or len(weight) != dim:
            raise ValueError(f"the weight is {weight.shape}, and should be ({dim},)")
        self.g, self.eps = weight, eps

    def __call__(self, x):
        y = x.astype(mx.float32)
        return (self.g * (y / mx.sqrt((y * y).mean(-1, keepdims=True) + self.eps))).astype(x.dtype)


@day.accepted("1.4.1", "einsum")
class Einsum(BaseNorm):
    def mean_square(self, x):
        return mx.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1]


@day.accepted("1.4.1", "norm-over-root-of-dim")
class NormOverRootOfDim(BaseNorm):
    def factor(self, x):
        length = mx.linalg.norm(x, axis=-1, keepdims=True)
        return math.sqrt(x.shape[-1]) / mx.sqrt(length * length + x.shape[-1] * self.eps)


# 1.4.2 silu


@day.probe("1.4.2")
def silu_plain(program):
    return program(normals(21)(3, 4, spread=2.0))


@day.probe("1.4.2")
def silu_far(program):
    return program(mx.array([-200.0, -100.0, -1.0, 0.0, 1.0, 100.0, 200.0]))


@day.probe("1.4.2", mx.float16)
def silu_half(program):
    return program(normals(22, mx.float16)(3, 4))


@day.probe("1.4.2", mx.bfloat16)
def silu_tail(program):
    """Here 1 - sigmoid(-x) is exactly 0 in bfloat16, in whatever way it is computed."""
    return program(mx.array([-10.0, -9.0, -8.0], dtype=mx.bfloat16))


@day.wrong(
    "1.4.2", "difference-from-one",
    fact="the sigmoid of a negative x is the difference of two numbers close to 1",
    question="Which bfloat16 number comes just before 1, and what is 1 minus it?",
)  # fmt: skip
def difference_from_one(x):
    return x * (1 - mx.sigmoid(-x))


@day.wrong(
    "1.4.2", "infinite-quotient-negative",
    fact="a quotient of exponentials of -x is subtracted from 1, and is infinity over infinity far below zero",
    question="What is exp(100) / (1 + exp(100)) in float32?",
)  # fmt: skip
def infinite_quotient_negative(x):
    e = mx.exp(-x)
    return x * (1 - e / (1 + e))


@day.wrong(
    "1.4.2", "infinite-quotient-positive",
    fact="the sigmoid is exp(x) / (1 + exp(x)), which is infinity over infinity for large x",
    question="What is exp(100) / (1 + exp(100)) in float32?",
)  # fmt: skip
def infinite_quotient_positive(x):
    e = mx.exp(x)
    return x * (e / (1 + e))


@day.wrong(
    "1.4.2", "sigmoid-alone",
    fact="the sigmoid is returned without x",
    question="What should 100 give, if large numbers pass as they are?",
)  # fmt: skip
def sigmoid_alone(x):
    return mx.sigmoid(x)


@day.wrong(
    "1.4.2", "other-sign",
    fact="x is multiplied by sigmoid(-x)",
    question="Which numbers should pass: the large ones, or the very negative ones?",
)  # fmt: skip
def other_sign(x):
    return x * mx.sigmoid(-x)


@day.wrong(
    "1.4.2", "relu",
    fact="negative numbers become 0 and positive ones stay, which is relu",
    question="What is -1 * sigmoid(-1)?",
)  # fmt: skip
def relu(x):
    return mx.maximum(x, 0)


@day.wrong(
    "1.4.2", "gelu",
    fact="x is multiplied by the normal distribution's integral, which is GELU",
    question="GELU has a bell curve in it. What does sigmoid have?",
)  # fmt: skip
def gelu(x):
    wide = x.astype(mx.float32)
    return (wide * (1 + mx.erf(wide / math.sqrt(2))) / 2).astype(x.dtype)


@day.wrong(
    "1.4.2", "gelu-tanh",
    fact="the formula with tanh and x cubed is used, which is GELU's",
    question="GELU needs the number 0.044715. Is there such a number in sigmoid?",
)  # fmt: skip
def gelu_tanh(x):
    wide = x.astype(mx.float32)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (wide * (1 + mx.tanh(inner)) / 2).astype(x.dtype)


@day.wrong(
    "1.4.2", "gelu-sigmoid",
    fact="x is multiplied by sigmoid(1.702 * x), which is an approximation of GELU",
    question="At which x is sigmoid(x) 0.731, and at which x is yours?",
)  # fmt: skip
def gelu_sigmoid(x):
    return x * mx.sigmoid(1.702 * x)


@day.wrong(
    "1.4.2", "float32-result",
    fact="the result is float32 although x is not",
    question="Which dtype should float16 numbers give, and where was it left?",
)  # fmt: skip
def silu_float32(x):
    return silu(x.astype(mx.float32))


@day.accepted("1.4.2", "sigmoid")
def by_sigmoid(x):
    return x * mx.sigmoid(x)


@day.accepted("1.4.2", "quotient")
def by_quotient(x):
    return x / (1 + mx.exp(-x))  # x over infinity is 0


@day.accepted("1.4.2", "two-branches")
def two_branches(x):
    e = mx.exp(x)
    return mx.where(x < 0, x * e / (1 + e), x / (1 + mx.exp(-x)))


@day.accepted("1.4.2", "float32-inside")
def float32_inside(x):
    wide = x.astype(mx.float32)
    return (wide * mx.reciprocal(1 + mx.exp(-wide))).astype(x.dtype)


@day.accepted("1.4.2", "logarithm")
def by_logarithm(x):
    wide = x.astype(mx.float32)
    return (wide * mx.exp(-mx.logaddexp(mx.zeros_like(wide), -wide))).astype(x.dtype)


# 1.4.3 the MLP


class BaseMLP(Qwen3MLP):
    """The solution in steps that a mistake can replace one at a time."""

    def mix(self, gate, up):
        return silu(gate) * up

    def __call__(self, x):
        return linear(self.mix(linear(x, self.w_gate), linear(x, self.w_up)), self.w_down)


def run_mlp(program, seed, dtype=mx.float32, hidden=5, width=7):
    draw = normals(seed, dtype)
    x, w_gate, w_up, w_down = draw(2, 3, hidden), draw(width, hidden), draw(width, hidden), draw(hidden, width)
    return program(hidden, width, w_gate, w_up, w_down)(x)


@day.probe("1.4.3")
def mlp_plain(program):
    return run_mlp(program, 31)


@day.probe("1.4.3")
def mlp_square(program):
    return run_mlp(program, 32, hidden=4, width=4)


@day.probe("1.4.3", mx.float16)
def mlp_half(program):
    return run_mlp(program, 33, mx.float16)


@day.wrong(
    "1.4.3", "gate-and-up-swapped",
    fact="w_gate and w_up have changed places: silu works on what w_up projects",
    question="Which of the two projections goes through silu?",
)  # fmt: skip
class GateAndUpSwapped(BaseMLP):
    def mix(self, gate, up):
        return gate * silu(up)


@day.wrong(
    "1.4.3", "no-silu",
    fact="the two projections are multiplied without silu",
    question="Where does the gate close, if it can be negative?",
)  # fmt: skip
class NoSilu(BaseMLP):
    def mix(self, gate, up):
        return gate * up


@day.wrong(
    "1.4.3", "silu-of-the-product",
    fact="silu is taken of the product of the two projections",
    question="If up is doubled and gate stays, how should the product change?",
)  # fmt: skip
class SiluOfTheProduct(BaseMLP):
    def mix(self, gate, up):
        return silu(gate * up)


@day.wrong(
    "1.4.3", "silu-of-both",
    fact="both projections go through silu",
    question="If w_up is multiplied by -1, what should happen to the result?",
)  # fmt: skip
class SiluOfBoth(BaseMLP):
    def mix(self, gate, up):
        return silu(gate) * silu(up)


@day.wrong(
    "1.4.3", "sigmoid-gate",
    fact="the gate is sigmoid and not silu",
    question="How much should pass where the gate's projection is 10: as much as up, or ten times as much?",
)  # fmt: skip
class SigmoidGate(BaseMLP):
    def mix(self, gate, up):
        return mx.sigmoid(gate) * up


@day.wrong(
    "1.4.3", "relu-gate",
    fact="the gate is relu and not silu",
    question="What passes where the gate's projection is -1?",
)  # fmt: skip
class ReluGate(BaseMLP):
    def mix(self, gate, up):
        return mx.maximum(gate, 0) * up


@day.wrong(
    "1.4.3", "gelu-gate",
    fact="the gate is GELU and not silu",
    question="Which function do the letters Swi of SwiGLU stand for?",
)  # fmt: skip
class GeluGate(BaseMLP):
    def mix(self, gate, up):
        return gelu_tanh(gate) * up


@day.wrong(
    "1.4.3", "sum-in-place-of-product",
    fact="the gate and the up projection are added",
    question="What should come out where the gate is 0?",
)  # fmt: skip
class SumInPlaceOfProduct(BaseMLP):
    def mix(self, gate, up):
        return silu(gate) + up


@day.wrong(
    "1.4.3", "no-up",
    fact="w_up is not used",
    question="Three weights were given. Which of them has not met x yet?",
)  # fmt: skip
class NoUp(BaseMLP):
    def mix(self, gate, up):
        return silu(gate)


@day.wrong(
    "1.4.3", "no-gate",
    fact="w_gate is not used: silu works on the up projection, which is then projected down",
    question="Three weights were given. Which of them has not met x yet?",
)  # fmt: skip
class NoGate(BaseMLP):
    def mix(self, gate, up):
        return silu(up)


@day.wrong(
    "1.4.3", "no-down",
    fact="the gated numbers are returned without the projection w_down",
    question="How many numbers should a token have on the way out?",
)  # fmt: skip
class NoDown(BaseMLP):
    def __call__(self, x):
        return self.mix(linear(x, self.w_gate), linear(x, self.w_up))


@day.wrong(
    "1.4.3", "residual",
    fact="x is added to the result",
    question="Does the formula have a sum in it? Whose task is the sum?",
)  # fmt: skip
class Residual(BaseMLP):
    def __call__(self, x):
        return x + super().__call__(x)


@day.wrong(
    "1.4.3", "float32-result",
    fact="the result is float32 although x is not",
    question="Where do your float16 numbers meet a float32 number?",
)  # fmt: skip
class MLPFloat32(BaseMLP):
    def __call__(self, x):
        return super().__call__(x).astype(mx.float32)


@day.accepted("1.4.3", "one-matrix-for-gate-and-up")
class OneMatrixForGateAndUp(Qwen3MLP):
    def __call__(self, x):
        gate, up = mx.split(linear(x, mx.concatenate([self.w_gate, self.w_up])), 2, axis=-1)
        return linear(up * gate * mx.sigmoid(gate), self.w_down)


@day.accepted("1.4.3", "einsum")
class EinsumMLP:
    def __init__(self, dim, hidden_dim, w_gate, w_up, w_down):
        shapes = {"w_gate": (hidden_dim, dim), "w_up": (hidden_dim, dim), "w_down": (dim, hidden_dim)}
        for (name, wanted), w in zip(shapes.items(), (w_gate, w_up, w_down), strict=True):
            if w.shape != wanted:
                raise ValueError(f"{name}: {w.shape} and not {wanted}")
        self.gate, self.up, self.down = w_gate, w_up, w_down

    def __call__(self, x):
        gate, up = (mx.einsum("...e,ie->...i", x, w) for w in (self.gate, self.up))
        return mx.einsum("...i,ei->...e", silu(gate) * up, self.down)
