"""Task 5.3.1, the gradients of a linear layer: the formula, finite differences, mx.vjp and PyTorch's autograd."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import linear64
from tests.week5.formulas_day3 import linear_dw64, linear_dx64, slopes64

from tiny_llm import basics
from tiny_llm.backward import layers
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def dx(x, w, dy):
    return both(x, w, dy)[0]


def dw(x, w, dy):
    return both(x, w, dy)[1]


def both(x, w, dy):
    found = layers.linear_vjp(x, w, dy)
    if not isinstance(found, tuple | list) or len(found) != 2:
        fail(Kind.TYPE, f"returned {type_words(found)}, expected dx and dw", "")
    return found


GRADIENTS = {"dx": (dx, linear_dx64), "dw": (dw, linear_dw64)}
by_gradient = pytest.mark.parametrize("name", GRADIENTS)


def inputs(seed, dtype=mx.float32, leading=(2, 3), I=5, O=4):  # noqa: E741
    draw = normals(seed, dtype)
    return draw(*leading, I), draw(O, I, spread=I**-0.5), draw(*leading, O)


@by_gradient
@by_dtype
@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 2, 3)], ids=str)
def test_task_1_linear_formula(leading, dtype, name):
    agrees(*GRADIENTS[name], *inputs(1, dtype, leading), seed=1)


@by_gradient
def test_task_1_linear_equal_sizes(name):
    """As many tokens as inputs and outputs: a wrong transpose fits."""
    agrees(*GRADIENTS[name], *inputs(2, leading=(4, 4), I=4), seed=2)


@by_gradient
def test_task_1_linear_two_features(name):
    """The token and the matrix of the first hint and of the chapter."""
    x, w = mx.array([[1.0, 2.0]]), mx.array([[3.0, 0.0], [-1.0, 2.0]])
    agrees(*GRADIENTS[name], x, w, mx.array([[0.5, -1.0]]), seed=0)


@pytest.mark.parametrize(("name", "which"), [("dx", 0), ("dw", 1)])
def test_task_1_linear_finite_differences(name, which):
    """Move one number of x or w a little: the change of the output, weighted by dy, is its gradient."""
    x, w, dy = inputs(3)
    expected = slopes64(linear64, [to_float64(x), to_float64(w)], which, to_float64(dy))
    agrees(*GRADIENTS[name], x, w, dy, seed=3, expected=expected)


@pytest.mark.parametrize(("name", "which"), [("dx", 0), ("dw", 1)])
def test_task_1_linear_mlx(name, which):
    """mx.vjp of week 1's linear."""
    x, w, dy = inputs(4)
    _, gradients = mx.vjp(basics.linear, [x, w], [dy])
    agrees(*GRADIENTS[name], x, w, dy, seed=4, expected=to_float64(gradients[which]))


@by_gradient
def test_task_1_linear_pytorch(pytorch, name):
    x, w, dy = inputs(5)

    def gradient(torch, x, w, dy, name):
        x, w = x.clone().requires_grad_(True), w.clone().requires_grad_(True)
        torch.nn.functional.linear(x, w).backward(dy)
        return (x if name == "dx" else w).grad

    agrees(*GRADIENTS[name], x, w, dy, seed=5, expected=pytorch(gradient, x, w, dy, name))


def test_task_1_linear_sweep():
    for n in sweep(N=7, L=1100, I=257, O=257):
        x, w, dy = inputs(n.seed, n.dtype, n.turn((n.N, n.L), (n.L,), (1, n.L, n.N)), n.I, n.O)
        for name in n.each(*GRADIENTS):
            agrees(*GRADIENTS[name], x, w, (dy * n.spread).astype(n.dtype), seed=n)


@property_test
@given(tokens=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_1_linear_sums_over_tokens(tokens, seed):
    """The weights' gradient is the sum of the gradients that each token alone gives."""
    x, w, dy = inputs(seed, leading=(tokens,))
    case = f"float32, x {tokens} x 5, w 4 x 5, seed {seed}, tokens one by one"
    with noted(case):
        together = dw(x, w, dy)
        alone = sum(to_float64(dw(x[i], w, dy[i])) for i in range(tokens))
    compare(together, alone, mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 4), (2, 4), (2, 3, 1)], ids=str)
def test_task_1_linear_refuses_other_shapes(shape):
    x, w, _ = inputs(6)
    with raises_value_error(f"x 2 x 3 x 5, w 4 x 5, dy {shape}", str(shape), "(2, 3, 4)"):
        mx.eval(layers.linear_vjp(x, w, mx.ones(shape)))
