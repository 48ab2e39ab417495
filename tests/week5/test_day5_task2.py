"""Task 5.5.2, a LoRA layer, checked against its formula in float64, MLX's operators, mlx-lm's layer and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day5 import lora64, merged64

from tiny_llm.lora import layer
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, shape_words
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def applied(x, w, a, b, alpha, bias=None):
    own = layer.LoRALinear(w, a, b, alpha, bias)
    return lambda x: own(x)


def merged(w, a, b, alpha):
    return layer.LoRALinear(w, a, b, alpha).merged()


def lora_inputs(seed, dtype=mx.float32, leading=(3, 4), inputs=7, outputs=5, rank=2, adapter=None):
    """N, L, I, O and r all differ."""
    draw, narrow = normals(seed, dtype), normals(seed + 50, adapter or dtype)
    a, b = narrow(rank, inputs, spread=inputs**-0.5), narrow(outputs, rank)
    return draw(*leading, inputs), draw(outputs, inputs, spread=inputs**-0.5), a, b


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (3, 4)], ids=str)
def test_task_2_lora_formula(leading, dtype):
    agrees(applied, lora64, *lora_inputs(1, dtype, leading), 3.0, seed=1)


@by_dtype
def test_task_2_lora_bias(dtype):
    agrees(applied, lora64, *lora_inputs(2, dtype), 3.0, normals(3, dtype)(5), seed=2)


def test_task_2_lora_merged_without_the_bias():
    """The merged matrix replaces W, A and B; the bias stays beside it."""
    bias = normals(3)(5)

    def merged_of_four(w, a, b, alpha):
        return layer.LoRALinear(w, a, b, alpha, bias).merged()

    agrees(merged_of_four, merged64, *lora_inputs(2)[1:], 3.0, seed=2)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0, 16.0])
@pytest.mark.parametrize("rank", [1, 2, 4, 8])
def test_task_2_lora_scale(rank, alpha):
    """alpha / r; with r = 8 the rank exceeds the sizes."""
    agrees(applied, lora64, *lora_inputs(3, rank=rank), alpha, seed=3)
    agrees(merged, merged64, *lora_inputs(3, rank=rank)[1:], alpha, seed=3)


@pytest.mark.parametrize("size", [1, 4])
def test_task_2_lora_equal_sizes(size):
    """A, B and W are all square, so that every order of the products has a result."""
    inputs = lora_inputs(4, mx.float32, (size,), size, size, size)
    agrees(applied, lora64, *inputs, 3.0, seed=4)
    agrees(merged, merged64, *inputs[1:], 3.0, seed=4)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_2_lora_float32_adapter(dtype):
    """The model is narrow, and A and B are float32, as in training."""
    x, w, a, b = lora_inputs(5, dtype, adapter=mx.float32)
    agrees(applied, lora64, x, w, a, b, 3.0, seed=5)
    agrees(merged, merged64, w, a, b, 3.0, seed=5)


@by_dtype
def test_task_2_lora_merged_formula(dtype):
    agrees(merged, merged64, *lora_inputs(6, dtype)[1:], 3.0, seed=6)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_2_lora_merged_rounds_once(dtype):
    """Many small terms: B A and the sum are float32, and only the result is rounded."""
    agrees(merged, merged64, *lora_inputs(7, dtype, inputs=64, outputs=48, rank=16)[1:], 8.0, seed=7)


def test_task_2_lora_zero_b_changes_nothing():
    x, w, a, b = lora_inputs(8)
    zero = mx.zeros_like(b)
    agrees(applied, lora64, x, w, a, zero, 3.0, seed=8, expected=to_float64(x @ w.T))
    agrees(merged, merged64, w, a, zero, 3.0, seed=8, expected=to_float64(w))


def test_task_2_lora_the_same_after_merging():
    """A call and a second merge after the first: the layer is what it was."""

    def called_after(x, w, a, b, alpha):
        own = layer.LoRALinear(w, a, b, alpha)
        mx.eval(own.merged())
        return own(x)

    def merged_after(w, a, b, alpha):
        own = layer.LoRALinear(w, a, b, alpha)
        mx.eval(own.merged())
        return own.merged()

    inputs = lora_inputs(14)
    agrees(called_after, lora64, *inputs, 3.0, seed=14)
    agrees(merged_after, merged64, *inputs[1:], 3.0, seed=14)


def test_task_2_lora_small_numbers():
    """W = 0, r = 2 and alpha = 4: the update alone, times 2."""
    a, b = mx.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), mx.array([[1.0, 0.0], [10.0, 1.0]])
    w, x = mx.zeros((2, 3)), mx.array([[1.0, 2.0, 3.0]])
    agrees(applied, lora64, x, w, a, b, 4.0, seed=0, expected=np.array([[2.0, 30.0]]))
    agrees(merged, merged64, w, a, b, 4.0, seed=0, expected=np.array([[2.0, 0.0, 0.0], [20.0, 2.0, 2.0]]))


def test_task_2_lora_mlx():
    """MLX's operators on the product B A."""
    x, w, a, b = lora_inputs(9)
    whole = mx.addmm(w, b, a, alpha=1.5)
    agrees(applied, lora64, x, w, a, b, 3.0, seed=9, expected=to_float64(mx.inner(x, whole)))
    agrees(merged, merged64, w, a, b, 3.0, seed=9, expected=to_float64(whole))


@pytest.mark.parametrize("which", ["output", "merged"])
def test_task_2_lora_mlx_lm(pytorch, which):
    """mlx-lm's layer, which stores both matrices transposed; its results are recorded with PyTorch's answers."""
    x, w, a, b = lora_inputs(10)

    def theirs(torch, *arrays):
        import mlx.nn as nn
        from mlx_lm.tuner.lora import LoRALinear

        x, w, a, b = (mx.array(each.numpy()) for each in arrays)
        linear = nn.Linear(w.shape[1], w.shape[0], bias=False)
        linear.weight = w
        own = LoRALinear.from_base(linear, r=len(a), scale=3.0 / len(a))
        own.lora_a, own.lora_b = a.T, b.T
        return torch.from_numpy(np.array(own(x) if which == "output" else own.fuse().weight))

    expected = pytorch(theirs, x, w, a, b)
    if which == "output":
        agrees(applied, lora64, x, w, a, b, 3.0, seed=10, expected=expected)
    else:
        agrees(merged, merged64, w, a, b, 3.0, seed=10, expected=expected)


@pytest.mark.parametrize("which", ["a", "b"])
def test_task_2_lora_gradients_pytorch(pytorch, which):
    """The gradients of A and B are PyTorch's: those of the output times some weights, summed."""
    x, w, a, b = lora_inputs(11)
    dy = normals(12)(3, 4, 5)

    def theirs(torch, x, w, a, b, dy):
        own = {"a": a.requires_grad_(), "b": b.requires_grad_()}
        y = torch.nn.functional.linear(x, w)
        y = y + 1.5 * torch.nn.functional.linear(torch.nn.functional.linear(x, a), b)
        (y * dy).sum().backward()
        return own[which].grad

    def gradient(a, b):
        return mx.grad(lambda a, b: mx.sum(layer.LoRALinear(w, a, b, 3.0)(x) * dy), "ab".index(which))(a, b)

    def by_formula(a, b, *, r=exact):
        inner, outer = to_float64(x).reshape(-1, 7), to_float64(dy).reshape(-1, 5)
        return 1.5 * (b.T @ outer.T @ inner if which == "a" else outer.T @ inner @ a.T)

    agrees(gradient, by_formula, a, b, seed=11, expected=pytorch(theirs, x, w, a, b, dy))


def test_task_2_lora_forms_no_product():
    """W is 1,024 x 1,024, x one row: B A would take as much memory as W."""
    agrees(applied, lora64, *lora_inputs(13), 3.0, seed=13)
    own = [mx.contiguous(v) for v in lora_inputs(13, leading=(1,), inputs=1024, outputs=1024)]
    mx.eval(own)
    case = "float32, x 1 x 1024, w 1024 x 1024, r 2, alpha 3, seed 13"
    holds_less(lambda: applied(*own, 3.0), 1024 * 1024 * 2, "half of W's", case=case)


def test_task_2_lora_sweep():
    for n in sweep(L=131, I=1100, O=1100, R=64):
        x, w, a, b = lora_inputs(n.seed, n.dtype, (n.L,), n.I, n.O, n.R)
        x = (x * n.spread).astype(n.dtype)
        alpha, bias = n.turn(16.0, 0.5, 3.0), n.turn(None, normals(n.seed, n.dtype)(n.O))
        agrees(applied, lora64, n.turn(x, x[0], x[:, None]), w, a, b, alpha, bias, seed=n)
        if n.I * n.O < 2**16:
            agrees(merged, merged64, w, a, b, alpha, seed=n)


@property_test
@given(rank=st.integers(1, 8), alpha=st.floats(-4, 4), seed=st.integers(0, 99))
def test_task_2_lora_merged_equals_unmerged(rank, alpha, seed):
    x, w, a, b = lora_inputs(seed, rank=rank)
    case = f"float32, x 3 x 4 x 7, w 5 x 7, r {rank}, alpha {alpha:.4g}, seed {seed}: x times the merged matrix"
    with noted(case):
        unmerged, whole = applied(x, w, a, b, alpha), merged(w, a, b, alpha)
        actual = x @ whole.T
    compare(actual, to_float64(unmerged), mx.float32, 1e-4, case, x.size)


WRONG = {
    "a of other inputs": ((5, 7), (2, 6), (5, 2)),
    "a transposed": ((5, 7), (7, 2), (5, 2)),
    "b transposed": ((5, 7), (2, 7), (2, 5)),
    "b of another rank": ((5, 7), (2, 7), (5, 3)),
    "b of other outputs": ((5, 7), (2, 7), (4, 2)),
    "a and b exchanged": ((5, 7), (5, 2), (2, 7)),
}


@pytest.mark.parametrize("name", WRONG)
def test_task_2_lora_refuses_other_shapes(name):
    shapes = WRONG[name]
    case = ", ".join(f"{letter} {shape_words(shape)}" for letter, shape in zip("wab", shapes, strict=True))
    with raises_value_error(case, *(str(shape[i]) for shape in shapes for i in (0, 1))):
        layer.LoRALinear(*map(mx.zeros, shapes), 1.0)
