"""Week 1, day 4: RMSNorm, SiLU and SwiGLU.

Each task is compared with its float64 formula, MLX's operator and PyTorch, in three dtypes; then come properties.
"""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import mlp64, rms_norm64, silu64

from tiny_llm import basics, layer_norm, qwen3
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

LEADING = [(), (2,), (2, 3), (2, 3, 4)]


@pytest.fixture
def uncompiled():
    """Disable compilation: MLX compiles its activations, which takes a second on a CPU with a C++ compiler."""
    mx.disable_compile()
    yield
    mx.enable_compile()


# Task 1, RMSNorm


@built
def rms_norm(x, weight, eps):
    layer = layer_norm.RMSNorm(x.shape[-1], weight, eps)
    return lambda x: layer(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_task_1_rms_norm_formula(leading, dtype):
    draw = normals(1, dtype)
    agrees(rms_norm, rms_norm64, draw(*leading, 5, spread=2.0), draw(5), 1e-6, seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_rms_norm_uneven_vectors(dtype):
    """Vectors with a nonzero mean and different lengths: each needs its own mean square."""
    draw = normals(2, dtype)
    x = (draw(2, 3, 6) + 1) * mx.array([[1.0], [16.0], [0.25]]).astype(dtype)
    agrees(rms_norm, rms_norm64, x, draw(6), 1e-6, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_rms_norm_large_numbers(dtype):
    """A few hundred: float16 can represent the numbers, but not their squares."""
    draw = normals(3, dtype)
    agrees(rms_norm, rms_norm64, draw(3, 8, spread=400.0), draw(8), 1e-6, seed=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_rms_norm_small_numbers(dtype):
    """A ten-thousandth: float16 can represent the numbers, but rounds their squares and this eps to 0."""
    draw = normals(4, dtype)
    agrees(rms_norm, rms_norm64, draw(3, 8, spread=1e-4), draw(8), 1e-8, seed=4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("eps", [0.0, 0.3, 2.0])
def test_task_1_rms_norm_eps(eps, dtype):
    """An eps as large as the squares shows where it is added."""
    draw = normals(5, dtype)
    agrees(rms_norm, rms_norm64, draw(2, 5), draw(5), eps, seed=5)


def test_task_1_rms_norm_default_eps():
    """Mean squares as small as the default, 1e-5."""

    @built
    def no_eps_given(x, weight):
        layer = layer_norm.RMSNorm(5, weight)
        return lambda x: layer(x)

    def default_eps64(x, weight, *, r=exact):
        return rms_norm64(x, weight, 1e-5, r=r)

    draw = normals(6)
    agrees(no_eps_given, default_eps64, draw(3, 5, spread=0.003), draw(5), seed=6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_rms_norm_of_zeros(dtype):
    """A vector of zeros stays zero, and does not affect the next one."""
    draw = normals(7, dtype)
    x = draw(2, 5) * mx.array([[0.0], [1.0]]).astype(dtype)
    agrees(rms_norm, rms_norm64, x, draw(5), 1e-6, seed=7)


@pytest.mark.parametrize("weight_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_rms_norm_weight_of_another_dtype(dtype, weight_dtype):
    """The result has x's dtype, whatever the weight's is."""
    weight = normals(80)(5).astype(mx.bfloat16).astype(weight_dtype)  # exact in every dtype
    agrees(rms_norm, rms_norm64, normals(8, dtype)(2, 5), weight, 1e-6, seed=8)


def test_task_1_rms_norm_called_with_other_dtypes_and_sizes():
    """One object, whose weight stays what it was: x may have another dtype and shape in each call."""
    draw = normals(11)
    weight = draw(5)
    layer = layer_norm.RMSNorm(5, weight, 1e-6)
    for dtype, leading in [(mx.bfloat16, (2,)), (mx.float32, (3, 2)), (mx.float16, ()), (mx.float32, (2,))]:
        agrees(lambda x, *_: layer(x), rms_norm64, draw(*leading, 5).astype(dtype), weight, 1e-6, seed=11)


def test_task_1_rms_norm_mlx():
    draw = normals(9)
    x, weight = draw(2, 3, 6, spread=2.0), draw(6)
    expected = to_float64(mx.fast.rms_norm(x, weight, 1e-3))
    agrees(rms_norm, rms_norm64, x, weight, 1e-3, seed=9, expected=expected)
    layer = nn.RMSNorm(6, eps=1e-3)
    layer.update({"weight": weight})
    agrees(rms_norm, rms_norm64, x, weight, 1e-3, seed=9, expected=to_float64(layer(x)))


def test_task_1_rms_norm_pytorch(pytorch):
    draw = normals(10)
    x, weight = draw(2, 3, 6, spread=2.0), draw(6)

    def norm(torch, x, weight, eps):
        return torch.nn.functional.rms_norm(x, (6,), weight, eps)

    agrees(rms_norm, rms_norm64, x, weight, 1e-3, seed=10, expected=pytorch(norm, x, weight, 1e-3))


def test_task_1_rms_norm_five_tokens():
    """The vectors of "That is a blue dog", as chapter 1.4 prints them."""
    vectors = [[1, -1, 1, 1], [2, -4, 4, 8], [0.02, -0.04, 0.04, 0.08], [200, -400, 400, 800], [3, 1, -3, -9]]
    normalized = [
        [1.0, -1.0, 1.0, 1.0],
        [0.4, -0.8, 0.8, 1.6],
        [0.3992, -0.7984, 0.7984, 1.5968],
        [0.4, -0.8, 0.8, 1.6],
        [0.6, 0.2, -0.6, -1.8],
    ]
    output = layer_norm.RMSNorm(4, mx.ones(4), 1e-5)(mx.array(vectors))
    case = 'float32, the five tokens "That is a blue dog", weight of ones, eps 1e-05'
    compare(output, np.array(normalized), mx.float32, 0.00006, case, 20)


def test_task_1_rms_norm_sweep():
    for n in sweep(A=257, B=1100, I=4200):
        draw = normals(n.seed, n.dtype)
        x = draw(n.A, n.B, n.I, spread=n.spread)
        agrees(rms_norm, rms_norm64, n.turn(x, x[0], x[:, None]), draw(n.I), n.turn(1e-6, 0.0, 1e-5, 0.3), seed=n)


@property_test
@given(rows=st.integers(2, 4), dim=st.integers(12, 40), spread=st.sampled_from([1e-3, 1, 1e3]), seed=st.integers(0, 99))
def test_task_1_rms_norm_has_mean_square_one(rows, dim, spread, seed):
    """Without a weight and without an eps, the mean of the result's squares is one."""

    def mean_square(x):
        y = rms_norm(x, mx.ones(dim), 0.0)
        return mx.mean(y * y, axis=-1)

    def mean_square64(x, *, r=exact):
        y = rms_norm64(x, np.ones(dim), 0.0, r=r)
        return r(np.mean(r(y * y), axis=-1))

    agrees(mean_square, mean_square64, normals(seed)(rows, dim, spread=spread), seed=seed, expected=np.ones(rows))


@property_test
@given(dim=st.integers(1, 12), power=st.integers(-8, 8), seed=st.integers(0, 99))
def test_task_1_rms_norm_ignores_a_factor(dim, power, seed):
    """Without eps, scaling x by a positive factor does not change the result."""
    draw = normals(seed)
    x, weight = draw(3, dim), draw(dim)
    expected = rms_norm64(to_float64(x), to_float64(weight), 0.0)
    agrees(rms_norm, rms_norm64, x * 2.0**power, weight, 0.0, seed=seed, expected=expected)


@pytest.mark.parametrize("shape", [(4,), (6,), (1,), (), (1, 5), (5, 1)], ids=str)
def test_task_1_rms_norm_refuses_other_weights(shape):
    with raises_value_error(f"dim 5, weight {' x '.join(map(str, shape)) or 'a single number'}"):
        layer_norm.RMSNorm(5, mx.ones(shape))


# Task 2, SiLU


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4)], ids=str)
def test_task_2_silu_formula(shape, dtype):
    agrees(basics.silu, silu64, normals(1, dtype)(*shape, spread=3.0), seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_silu_very_negative(dtype):
    """No result is NaN, although exp(12) is infinite in float16; in float32, -12 and -20 do not give 0."""
    x = mx.array([-12.0, -20.0, -80.0, -89.0, -110.0, -1000.0, -30000.0]).astype(dtype)
    agrees(basics.silu, silu64, mx.concatenate([mx.array([-1.0, 0.0]).astype(dtype), x]), seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_silu_largest_of_the_dtype(dtype):
    """The lowest number gives 0, and the largest itself: a limited exponent is not enough."""
    limits = mx.finfo(dtype)
    agrees(basics.silu, silu64, mx.array([limits.min, -1.0, 0.0]).astype(dtype), seed=7)
    agrees(basics.silu, silu64, mx.array([limits.max, 1.0]).astype(dtype), seed=7)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_silu_very_large(dtype):
    """Large inputs pass unchanged."""
    agrees(basics.silu, silu64, mx.array([12.0, 20.0, 89.0, 110.0, 1000.0, 30000.0]).astype(dtype), seed=3)


@pytest.mark.parametrize("dtype", DTYPES[::-1], ids=str)
def test_task_2_silu_keeps_small_results(dtype):
    """Around -9 the result is a thousandth: small, but every dtype can represent it."""
    x = -8 - 2 * mx.array(np.linspace(0, 1, 9), dtype=dtype)
    agrees(basics.silu, silu64, x, seed=4)


def test_task_2_silu_sweep():
    for n in sweep(A=257, B=1100, C=4200):
        x = normals(n.seed, n.dtype)(n.A, n.B, n.C, spread=n.spread)
        agrees(basics.silu, silu64, n.turn(x, x[0], x[0, 0]), seed=n)


def test_task_2_silu_mlx(uncompiled):
    x = normals(5)(3, 4, spread=3.0)
    agrees(basics.silu, silu64, x, seed=5, expected=to_float64(nn.silu(x)))


def test_task_2_silu_pytorch(pytorch):
    x = normals(6)(3, 4, spread=3.0)
    agrees(basics.silu, silu64, x, seed=6, expected=pytorch(lambda torch, x: torch.nn.functional.silu(x), x))


@property_test
@given(size=st.integers(10, 20), spread=st.sampled_from([0.1, 1.0, 10.0, 1e4]), seed=st.integers(0, 99))
def test_task_2_silu_of_both_signs(size, spread, seed):
    """silu(x) - silu(-x) = x."""

    def difference(x):
        return basics.silu(x) - basics.silu(-x)

    def difference64(x, *, r=exact):
        return r(silu64(x, r=r) - silu64(-x, r=r))

    x = normals(seed)(size, spread=spread)
    agrees(difference, difference64, x, seed=seed, expected=to_float64(x))


# Task 2, the MLP


@built
def mlp(x, w_gate, w_up, w_down):
    layer = qwen3.Qwen3MLP(w_gate.shape[1], w_gate.shape[0], w_gate, w_up, w_down)
    return lambda x: layer(x)


def mlp_inputs(seed, dtype=mx.float32, leading=(2, 3), hidden=5, width=7):
    """Return inputs whose projections have unit variance, as with trained weights."""
    draw = normals(seed, dtype)
    up = [draw(width, hidden, spread=hidden**-0.5) for _ in ("gate", "up")]
    return draw(*leading, hidden), *up, draw(hidden, width, spread=width**-0.5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_task_2_mlp_formula(leading, dtype):
    agrees(mlp, mlp64, *mlp_inputs(1, dtype, leading), seed=1)


@pytest.mark.parametrize("width", [3, 5, 16])
def test_task_2_mlp_any_width(width):
    """I below E, equal to it, above it."""
    agrees(mlp, mlp64, *mlp_inputs(2, width=width), seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_mlp_large_gates(dtype):
    """A gate far from zero passes everything or nothing."""
    x, w_gate, w_up, w_down = mlp_inputs(3, dtype)
    agrees(mlp, mlp64, x, w_gate * 16, w_up, w_down, seed=3)


def test_task_2_mlp_sweep():
    for n in sweep(N=4200, E=1100, I=4200):
        x, *weights = mlp_inputs(n.seed, n.dtype, leading=n.turn((n.N,), (1, n.N), (n.N, 1)), hidden=n.E, width=n.I)
        agrees(mlp, mlp64, x * n.spread, *weights, seed=n)


def test_task_2_mlp_mlx(uncompiled):
    x, *weights = mlp_inputs(4)
    layers = []
    for w in weights:
        layers.append(nn.Linear(w.shape[1], w.shape[0], bias=False))
        layers[-1].update({"weight": w})
    gate, up, down = layers
    agrees(mlp, mlp64, x, *weights, seed=4, expected=to_float64(down(nn.silu(gate(x)) * up(x))))


def test_task_2_mlp_pytorch(pytorch):
    inputs = mlp_inputs(5)

    def swiglu(torch, x, w_gate, w_up, w_down):
        linear, silu = torch.nn.functional.linear, torch.nn.functional.silu
        return linear(silu(linear(x, w_gate)) * linear(x, w_up), w_down)

    agrees(mlp, mlp64, *inputs, seed=5, expected=pytorch(swiglu, *inputs))


@property_test
@given(power=st.integers(-4, 4), seed=st.integers(0, 99))
def test_task_2_mlp_is_linear_in_w_up(power, seed):
    """Twice w_up gives twice the output; w_gate alone goes through silu."""
    x, w_gate, w_up, w_down = mlp_inputs(seed)
    expected = 2.0**power * mlp64(*map(to_float64, (x, w_gate, w_up, w_down)))
    agrees(mlp, mlp64, x, w_gate, w_up * 2.0**power, w_down, seed=seed, expected=expected)


@property_test
@given(length=st.integers(2, 6), seed=st.integers(0, 99))
def test_task_2_mlp_takes_tokens_one_by_one(length, seed):
    """A token's output does not depend on the other tokens."""

    def token_by_token(x, *weights):
        return mx.concatenate([mlp(x[:, i : i + 1], *weights) for i in range(length)], axis=1)

    agrees(token_by_token, mlp64, *mlp_inputs(seed, leading=(2, length)), seed=seed)


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in ("w_gate", "w_up") for shape in ((5, 7), (7, 4), (6, 5), (7, 1), (1, 5), (7, 5, 2))]
    + [("w_down", shape) for shape in ((7, 5), (5, 6), (4, 7), (5, 1), (1, 7), (35,))],
)
def test_task_2_mlp_refuses_other_shapes(name, shape):
    weights = {"w_gate": mx.zeros((7, 5)), "w_up": mx.zeros((7, 5)), "w_down": mx.zeros((5, 7)), name: mx.zeros(shape)}
    shapes = ", ".join(f"{n} {' x '.join(map(str, w.shape))}" for n, w in weights.items())
    with raises_value_error(f"dim 5, hidden_dim 7, {shapes}", name):
        qwen3.Qwen3MLP(5, 7, **weights)


def test_task_2_mlp_refuses_each_weight_by_its_name():
    """A message that names all weights names none: no two weights have the same one."""
    fitting, told = {"w_gate": mx.zeros((7, 5)), "w_up": mx.zeros((7, 5)), "w_down": mx.zeros((5, 7))}, []
    for name in fitting:
        with raises_value_error(f"dim 5, hidden_dim 7, {name} 3 x 3, the other weights as needed", name):
            try:
                qwen3.Qwen3MLP(5, 7, **{**fitting, name: mx.zeros((3, 3))})
            except ValueError as error:
                told.append(str(error))
                raise
    if len({*told}) < len(told):
        case = "dim 5, hidden_dim 7, each weight alone 3 x 3"
        fail(Kind.NO_ERROR, "several weights have the same message", case, f"got       {told[0]}")
