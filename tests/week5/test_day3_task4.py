"""Task 5.3.4, the gradients of SwiGLU: the formula, finite differences, mx.vjp and PyTorch's autograd."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import silu64
from tests.week5.formulas_day3 import slopes64, swiglu_dgate64, swiglu_dup64

from tiny_llm import basics
from tiny_llm.backward import layers
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, drawn, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, to_float64
from tiny_llm_course.testkit.sizes import sweep


def dgate(gate, up, dy):
    return both(gate, up, dy)[0]


def dup(gate, up, dy):
    return both(gate, up, dy)[1]


def both(gate, up, dy):
    found = layers.swiglu_vjp(gate, up, dy)
    if not isinstance(found, tuple | list) or len(found) != 2:
        fail(Kind.TYPE, f"returned {type_words(found)}, expected dgate and dup", "")
    return found


GRADIENTS = {"dgate": (dgate, swiglu_dgate64), "dup": (dup, swiglu_dup64)}
by_gradient = pytest.mark.parametrize("name", GRADIENTS)


def inputs(seed, *shape, dtype=mx.float32):
    return drawn(seed, shape, shape, shape, dtype=dtype)


@by_gradient
@by_dtype
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 5)], ids=str)
def test_task_4_swiglu_formula(shape, dtype, name):
    agrees(*GRADIENTS[name], *inputs(1, *shape, dtype=dtype), seed=1)


@by_gradient
@by_dtype
def test_task_4_swiglu_extreme_gates(dtype, name):
    """Far to the right the slope is 1, far to the left it is 0; exp(100) overflows float32."""
    gate = mx.array([-1000.0, -100.0, -20.0, -9.0, -1.2785, 0.0, 9.0, 100.0, 1000.0]).astype(dtype)
    agrees(*GRADIENTS[name], gate, mx.full((9,), 2.0, dtype), mx.full((9,), 0.5, dtype), seed=0)


@by_gradient
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_4_swiglu_rounds_once(dtype, name):
    """The nearest number of the dtype, or a neighbor that is almost as near: half a step, and a tenth for float32."""
    gradient, formula = GRADIENTS[name]
    arrays = inputs(7, 60, dtype=dtype)
    case = f"{str(dtype).split('.')[-1]}, gate 60, up 60, dy 60, seed 7: {name}"
    expected = formula(*map(to_float64, arrays))
    with noted(case):
        found = gradient(*arrays)
    step = EPSILON[dtype] * 2.0 ** np.floor(np.log2(np.maximum(np.abs(expected), 2.0**-14)))
    compare(found, expected, dtype, 0.6 * step, case, 60)


@by_gradient
def test_task_4_swiglu_tiny_silu(name):
    """At -17.5 silu has three bits in float16, and dy brings the product back to where it has eleven."""
    gate, up, dy = (mx.full((2,), x, mx.float16) for x in (-17.5, 1.0, 1000.0))
    agrees(*GRADIENTS[name], gate, up, dy, seed=0)


@by_gradient
def test_task_4_swiglu_zero_gate(name):
    """At 0 silu is 0, and its slope is a half."""
    agrees(*GRADIENTS[name], mx.zeros(3), *drawn(2, (3,), (3,)), seed=2)


@pytest.mark.parametrize(("name", "which"), [("dgate", 0), ("dup", 1)])
def test_task_4_swiglu_finite_differences(name, which):
    gate, up, dy = inputs(3, 2, 3, 4)

    def forward(gate, up):
        return silu64(gate) * up

    expected = slopes64(forward, [to_float64(gate), to_float64(up)], which, to_float64(dy))
    agrees(*GRADIENTS[name], gate, up, dy, seed=3, expected=expected)


@pytest.mark.parametrize("own", [True, False], ids=["week 1's silu", "mlx.nn.silu"])
@pytest.mark.parametrize(("name", "which"), [("dgate", 0), ("dup", 1)])
def test_task_4_swiglu_mlx(name, which, own):
    gate, up, dy = inputs(4, 2, 3, 4)
    _, gradients = mx.vjp(lambda gate, up: (basics.silu if own else nn.silu)(gate) * up, [gate, up], [dy])
    agrees(*GRADIENTS[name], gate, up, dy, seed=4, expected=to_float64(gradients[which]))


@by_gradient
def test_task_4_swiglu_pytorch(pytorch, name):
    gate, up, dy = inputs(5, 2, 3, 4)

    def gradient(torch, gate, up, dy, name):
        gate, up = gate.clone().requires_grad_(True), up.clone().requires_grad_(True)
        (torch.nn.functional.silu(gate) * up).backward(dy)
        return (gate if name == "dgate" else up).grad

    agrees(*GRADIENTS[name], gate, up, dy, seed=5, expected=pytorch(gradient, gate, up, dy, name))


def test_task_4_swiglu_sweep():
    for n in sweep(N=20, L=1100, I=4200):
        shape = n.turn((n.N, n.L, min(n.I, 300)), (n.L, n.I))
        gate, up, dy = inputs(n.seed, *shape, dtype=n.dtype)
        for name in n.each(*GRADIENTS):
            agrees(*GRADIENTS[name], (gate * n.spread).astype(n.dtype), up, dy, seed=n)


@property_test
@given(count=st.integers(1, 9), seed=st.integers(0, 99))
def test_task_4_swiglu_slopes_of_opposite_gates(count, seed):
    """silu(g) - silu(-g) is g, so the slopes at g and at -g add up to 1."""
    gate = normals(seed)(count, spread=3.0)
    ones = mx.ones(count)
    case = f"float32, gate {count}, up and dy of ones, seed {seed}: dgate plus the dgate of -gate"
    with noted(case):
        total = dgate(gate, ones, ones) + dgate(-gate, ones, ones)
    compare(total, to_float64(ones), mx.float32, 1e-5, case, count)


@pytest.mark.parametrize("which", ["up", "dy"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 5), (2, 3, 1), (5,)], ids=str)
def test_task_4_swiglu_refuses_other_shapes(shape, which):
    arrays = dict(zip(("gate", "up", "dy"), inputs(6, 2, 3, 5), strict=True)) | {which: mx.ones(shape)}
    with raises_value_error(f"gate 2 x 3 x 5, {which} {shape}", str(shape), "(2, 3, 5)"):
        mx.eval(layers.swiglu_vjp(*arrays.values()))
