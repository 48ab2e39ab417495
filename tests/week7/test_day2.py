"""Week 7, day 2: Tool calls.

Each task is held to its formula in float64, to MLX's own operator and to PyTorch, in three dtypes; then to properties.
"""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiny_llm.tools import template
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

SHAPES = [(), (1,), (5,), (2, 3), (2, 3, 4), (1025,)]


# Task 1, Render tools


def formula_1(x, *, r=exact):
    return r(x + x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_task_1_formula(shape, dtype):
    agrees(template.render_tools, formula_1, normals(1, dtype)(*shape), seed=1)


def test_task_1_sweep():
    for n in sweep(A=1100, B=4200):
        agrees(template.render_tools, formula_1, normals(n.seed)(n.A, n.B, spread=n.spread), seed=n)


def test_task_1_mlx():
    x = normals(2)(3, 4)
    agrees(template.render_tools, formula_1, x, seed=2, expected=to_float64(mx.add(x, x)))


def test_task_1_pytorch(pytorch):
    x = normals(3)(4, 5)
    expected = pytorch(lambda torch, x: torch.add(x, x), x)
    agrees(template.render_tools, formula_1, x, seed=3, expected=expected)


@property_test
@given(rows=st.integers(1, 4), columns=st.integers(1, 40), seed=st.integers(0, 99))
def test_task_1_of_both_signs(rows, columns, seed):
    """What is twice -x is minus what is twice x."""
    x = normals(seed)(rows, columns)
    case = f"float32, x {rows} x {columns}, seed {seed}, against minus the same of -x"
    compare(template.render_tools(x), -to_float64(template.render_tools(-x)), mx.float32, 0.0, case, x.size)
