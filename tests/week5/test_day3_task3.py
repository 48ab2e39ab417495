"""Task 5.3.3, the gradients of RMSNorm: the formula, finite differences, mx.vjp and PyTorch's autograd."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import rms_norm64
from tests.week5.formulas_day3 import rms_norm_dweight64, rms_norm_dx64, slopes64

from tiny_llm import layer_norm
from tiny_llm.backward import layers
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def dx(x, weight, eps, dy):
    return both(x, weight, eps, dy)[0]


def dweight(x, weight, eps, dy):
    return both(x, weight, eps, dy)[1]


def both(x, weight, eps, dy):
    found = layers.rms_norm_vjp(x, weight, eps, dy)
    if not isinstance(found, tuple | list) or len(found) != 2:
        fail(Kind.TYPE, f"returned {type_words(found)}, expected dx and dweight", "")
    return found


GRADIENTS = {"dx": (dx, rms_norm_dx64), "dweight": (dweight, rms_norm_dweight64)}
by_gradient = pytest.mark.parametrize("name", GRADIENTS)


def inputs(seed, dtype=mx.float32, leading=(2, 3), size=5, eps=1e-5):
    draw = normals(seed, dtype)
    return draw(*leading, size), 1 + draw(size, spread=0.5), eps, draw(*leading, size)


@by_gradient
@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=str)
def test_task_3_rms_norm_formula(leading, dtype, name):
    agrees(*GRADIENTS[name], *inputs(1, dtype, leading), seed=1)


@by_gradient
def test_task_3_rms_norm_equal_sizes(name):
    agrees(*GRADIENTS[name], *inputs(2, leading=(4, 4), size=4), seed=2)


@by_gradient
@pytest.mark.parametrize("eps", [0.5, 1e-12])
def test_task_3_rms_norm_any_eps(eps, name):
    agrees(*GRADIENTS[name], *inputs(3, eps=eps), seed=3)


@by_gradient
def test_task_3_rms_norm_two_features(name):
    """The vector (3, 4), as in the chapter: dx is perpendicular to it."""
    x, dy = mx.array([[3.0, 4.0]]), mx.array([[1.0, 0.0]])
    agrees(*GRADIENTS[name], x, mx.ones(2), 0.0, dy, seed=0)


@by_gradient
def test_task_3_rms_norm_of_zeros(name):
    """A zero vector is scaled by the root of 1 / eps, and its gradient too."""
    _, weight, eps, dy = inputs(4)
    agrees(*GRADIENTS[name], mx.zeros((2, 3, 5)), weight, eps, dy, seed=4)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@by_gradient
def test_task_3_rms_norm_of_large_numbers(dtype, name):
    """Squares of 300 overflow float16, and sums of them lose digits in both narrow dtypes."""
    x, weight, eps, dy = inputs(5, dtype, (64,), 64)
    agrees(*GRADIENTS[name], (x * 300).astype(dtype), weight, eps, dy, seed=5)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_3_rms_norm_weight_in_float32(dtype):
    """Each gradient has its input's dtype, so a float32 dweight is as accurate as float32."""
    x, _, eps, dy = inputs(6, dtype)
    weight = 1 + normals(60)(5, spread=0.5)
    agrees(*GRADIENTS["dx"], x, weight, eps, dy, seed=6)
    agrees(*GRADIENTS["dweight"], x, weight, eps, dy, seed=6, dtype=mx.float32)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_3_rms_norm_weights_near_1(dtype):
    """With dy = x, dx is what the weights differ from 1, which a narrow dtype cannot hold."""
    x = normals(61, dtype)(2, 3, 16)
    agrees(*GRADIENTS["dx"], x, 1 + normals(62)(16, spread=1e-4), 1e-9, x, seed=61)


@pytest.mark.parametrize(("name", "which"), [("dx", 0), ("dweight", 1)])
def test_task_3_rms_norm_finite_differences(name, which):
    x, weight, eps, dy = inputs(7)

    def forward(x, weight):
        return rms_norm64(x, weight, eps)

    expected = slopes64(forward, [to_float64(x), to_float64(weight)], which, to_float64(dy))
    agrees(*GRADIENTS[name], x, weight, eps, dy, seed=7, expected=expected)


@pytest.mark.parametrize("own", [True, False], ids=["week 1's RMSNorm", "mx.fast.rms_norm"])
@pytest.mark.parametrize(("name", "which"), [("dx", 0), ("dweight", 1)])
def test_task_3_rms_norm_mlx(name, which, own):
    x, weight, eps, dy = inputs(8)

    def forward(x, weight):
        return layer_norm.RMSNorm(5, weight, eps)(x) if own else mx.fast.rms_norm(x, weight, eps)

    _, gradients = mx.vjp(forward, [x, weight], [dy])
    agrees(*GRADIENTS[name], x, weight, eps, dy, seed=8, expected=to_float64(gradients[which]))


@by_gradient
def test_task_3_rms_norm_pytorch(pytorch, name):
    x, weight, eps, dy = inputs(9)

    def gradient(torch, x, weight, eps, dy, name):
        x, weight = x.clone().requires_grad_(True), weight.clone().requires_grad_(True)
        torch.nn.functional.rms_norm(x, weight.shape, weight, eps).backward(dy)
        return (x if name == "dx" else weight).grad

    agrees(*GRADIENTS[name], x, weight, eps, dy, seed=9, expected=pytorch(gradient, x, weight, eps, dy, name))


def test_task_3_rms_norm_sweep():
    for n in sweep(N=7, L=1100, E=1030):
        eps = n.turn(1e-5, 1e-3, 1e-6)
        x, weight, eps, dy = inputs(n.seed, n.dtype, n.turn((n.N, n.L), (n.L,), (n.L, n.N, 1)), n.E, eps)
        for name in n.each(*GRADIENTS):
            agrees(*GRADIENTS[name], (x * n.spread).astype(n.dtype), weight, eps, dy, seed=n)


@property_test
@given(size=st.integers(2, 9), seed=st.integers(0, 99))
def test_task_3_rms_norm_ignores_the_length(size, seed):
    """The output does not depend on the length of x if eps is 0, so dx is perpendicular to x."""
    x, weight, _, dy = inputs(seed, leading=(3,), size=size)
    case = f"float32, x 3 x {size}, weight {size}, eps 0.0, seed {seed}: the dot product of dx and x"
    with noted(case):
        along = mx.sum(dx(x, weight, 0.0, dy) * x, axis=-1)
    compare(along, to_float64(mx.zeros(3)), mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 5), (2, 3, 1), (5,), (1, 2, 3, 5), (6, 5)], ids=str)
def test_task_3_rms_norm_refuses_other_shapes(shape):
    x, weight, eps, _ = inputs(10)
    with raises_value_error(f"x 2 x 3 x 5, weight 5, dy {shape}", str(shape), "(2, 3, 5)"):
        mx.eval(layers.rms_norm_vjp(x, weight, eps, mx.ones(shape)))
