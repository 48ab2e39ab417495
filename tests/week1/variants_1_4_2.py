"""Reference variants of task 1.4.2, SiLU."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.4.2")


known.probe_table(
    plain=lambda program: program(normals(21)(3, 4, spread=2.0)),
    far=lambda program: program(mx.array([-200.0, -100.0, -1.0, 0.0, 1.0, 100.0, 200.0])),
    farther=lambda program: program(mx.array([-1e30, -1.0, 1.0])),
)
known.probe_table(mx.float16, half=lambda program: program(normals(22, mx.float16)(3, 4)))
known.probe_table(
    mx.bfloat16,
    # Here 1 - sigmoid(-x) is exactly 0 in bfloat16, however it is computed.
    tail=lambda program: program(mx.array([-10.0, -9.0, -8.0], dtype=mx.bfloat16)),
)


@known.probe()
def before_the_tail(program):
    """Return which results are 0, and which are inaccurate: 1 + tanh(x / 2) is the last sum to become 0."""
    x = mx.array([-6.75, -6.5, -6.25], dtype=mx.bfloat16)
    y = program(x).astype(mx.float32)
    exact = x.astype(mx.float32) * mx.sigmoid(x.astype(mx.float32))
    return y == 0, mx.abs(y / exact - 1) > 0.02


@known.sized("x 128 x 3,072, float32")
def sized(program):
    x = normals(1)(128, 3072)
    return lambda: program(x)


known.change(
    "difference-from-one",
    ("mx.where(x < 0, e, 1) / (1 + e)", "(1 - mx.sigmoid(-x))"),
    fact="the sigmoid of a negative x is the difference of two numbers close to 1",
    question="Which bfloat16 number comes just before 1, and what is 1 minus it?",
)
known.change(
    "sum-with-tanh",
    ("mx.where(x < 0, e, 1) / (1 + e)", "((1 + mx.tanh(x / 2)) / 2)"),
    fact="the sigmoid is (1 + tanh(x / 2)) / 2, which adds two numbers that nearly cancel for negative x",
    question="Which bfloat16 number is nearest to tanh(-4.5), and what is 1 plus it?",
)
known.change(
    "exponent-limited",
    ("-mx.abs(x)", "mx.maximum(-mx.abs(x), -50)"),
    fact="the argument of exp is limited, so a very negative x is multiplied by a sigmoid that is not small enough",
    question="What is -1e30 times sigmoid(-50)?",
)
known.change(
    "infinite-quotient-negative",
    ("-mx.abs(x)", "-x"),
    ("mx.where(x < 0, e, 1) / (1 + e)", "(1 - e / (1 + e))"),
    fact="a quotient of exponentials of -x is subtracted from 1, and is inf / inf for very negative x",
    question="What is exp(100) / (1 + exp(100)) in float32?",
)
known.change(
    "infinite-quotient-positive",
    ("-mx.abs(x)", "x"),
    ("mx.where(x < 0, e, 1) / (1 + e)", "(e / (1 + e))"),
    fact="the sigmoid is exp(x) / (1 + exp(x)), which is inf / inf for large x",
    question="What is exp(100) / (1 + exp(100)) in float32?",
)
known.change(
    "sigmoid-alone",
    ("return x *", "return"),
    fact="the sigmoid is returned without multiplying by x",
    question="What should the result be for 100, if large inputs pass unchanged?",
)
known.change(
    "square-root",
    ("-mx.abs(x)", "-x"),
    ("mx.where(x < 0, e, 1) / (1 + e)", "mx.rsqrt(1 + e)"),
    fact="x is multiplied by the square root of sigmoid(x)",
    question="mx.rsqrt(2) is 0.707. What is sigmoid(0)?",
)
known.change(
    "other-sign",
    ("x < 0", "x > 0"),
    fact="x is multiplied by sigmoid(-x)",
    question="Which inputs should pass: large ones, or very negative ones?",
)
known.change(
    "relu",
    ("x * mx.where(x < 0, e, 1) / (1 + e)", "mx.maximum(x, 0)"),
    fact="negative inputs become 0 and positive ones stay, which is ReLU",
    question="What is -1 * sigmoid(-1)?",
)


@known.wrong(
    "gelu",
    fact="x is multiplied by the normal CDF, which is GELU",
    question="GELU uses the normal distribution. What does sigmoid use?",
)
def gelu(x):
    wide = x.astype(mx.float32)
    return (wide * (1 + mx.erf(wide / math.sqrt(2))) / 2).astype(x.dtype)


@known.wrong(
    "gelu-tanh",
    fact="the tanh formula with x cubed is used, which is the tanh approximation of GELU",
    question="GELU needs the constant 0.044715. Does sigmoid have such a constant?",
)
def gelu_tanh(x):
    wide = x.astype(mx.float32)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (wide * (1 + mx.tanh(inner)) / 2).astype(x.dtype)


known.change(
    "gelu-sigmoid",
    ("-mx.abs(x)", "-mx.abs(1.702 * x)"),
    fact="x is multiplied by sigmoid(1.702 * x), which is an approximation of GELU",
    question="At which x is sigmoid(x) 0.731, and at which x is your factor 0.731?",
)
known.change(
    "float32-result",
    ("e = mx.exp", "x = x.astype(mx.float32)\ne = mx.exp"),
    fact="the result is float32 although x is not",
    question="Which dtype should float16 inputs return, and where was it lost?",
)
known.change(
    "softplus",
    ("return x * mx.where(x < 0, e, 1) / (1 + e)", "return mx.maximum(x, 0) + mx.log1p(e)"),
    fact="the result is log(1 + exp(x)), which is softplus",
    question="What is 0 * sigmoid(0)?",
)
known.change(
    "tanh-gate",
    ("return x * mx.where(x < 0, e, 1) / (1 + e)", "return x * mx.tanh(x)"),
    fact="x is multiplied by tanh(x) instead of sigmoid(x)",
    question="How much of a very negative input should pass: all of it with its sign flipped, or almost nothing?",
)


@known.accepted("sigmoid")
def by_sigmoid(x):
    return x * mx.sigmoid(x)


@known.accepted("quotient")
def by_quotient(x):
    return x / (1 + mx.exp(-x))  # x over infinity is 0


@known.accepted("two-branches")
def two_branches(x):
    e = mx.exp(x)
    return mx.where(x < 0, x * e / (1 + e), x / (1 + mx.exp(-x)))


@known.accepted("float32-inside")
def float32_inside(x):
    wide = x.astype(mx.float32)
    return (wide * mx.reciprocal(1 + mx.exp(-wide))).astype(x.dtype)


@known.accepted("logarithm")
def by_logarithm(x):
    wide = x.astype(mx.float32)
    return (wide * mx.exp(-mx.logaddexp(mx.zeros_like(wide), -wide))).astype(x.dtype)
