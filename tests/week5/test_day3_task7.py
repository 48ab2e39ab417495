"""Task 5.3.7, gradient clipping: the formula, mlx.optimizers and PyTorch."""

import mlx.core as mx
import mlx.optimizers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day3 import clipped64, norm64

from tiny_llm.optimizers import clipping
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def both(grads, max_norm):
    """Clip a vector, cut into three gradients: a matrix, a vector and a number; return the numbers and the norm."""
    third = len(grads) // 3
    parts = {"w": grads[: 2 * third].reshape(2, third), "b": grads[2 * third : -1], "s": grads[-1]}
    found = clipping.clip_by_global_norm(parts, max_norm)
    if not isinstance(found, tuple | list) or len(found) != 2:
        fail(Kind.TYPE, f"returned {type_words(found)}, expected gradients and a norm", "")
    clipped, norm = found
    if not isinstance(clipped, dict):
        fail(Kind.TYPE, f"the gradients are {type_words(clipped)}, expected a dict", "")
    fail_if_different("the gradients have other names", sorted(parts), sorted(clipped), "")
    for name, part in parts.items():
        fail_if_different(f"{name} has another shape", part.shape, clipped[name].shape, "")
    return mx.concatenate([clipped[name].flatten() for name in parts]), norm


def clipped(grads, max_norm):
    return both(grads, max_norm)[0]


def norm(grads, max_norm):
    return both(grads, max_norm)[1]


def check(grads, max_norm, *, seed, **options):
    agrees(clipped, clipped64, grads, max_norm, seed=seed, **options)
    agrees(norm, norm64, grads, max_norm, seed=seed, dtype=mx.float32)


@by_dtype
@pytest.mark.parametrize("max_norm", [0.5, 1, 3.0])
def test_task_7_clipping_formula(max_norm, dtype):
    """All three are below the norm, which is about 4."""
    check(normals(1, dtype)(13), max_norm, seed=1)


@by_dtype
@pytest.mark.parametrize("max_norm", [4.5, 1000.0])
def test_task_7_clipping_leaves_small_gradients(max_norm, dtype):
    check(normals(2, dtype)(13), max_norm, seed=2)


def test_task_7_clipping_three_and_four():
    """The gradients (3, 0) and (0, 4) of the first hint: together their norm is 5."""
    case = "grads a (3, 0) and b (0, 4), max_norm 1"
    with noted(case):
        found, norm = clipping.clip_by_global_norm({"a": mx.array([3.0, 0.0]), "b": mx.array([0.0, 4.0])}, 1.0)
    compare(norm, np.array(5.0), mx.float32, 1e-5, f"{case}: the norm", 4)
    compare(found["a"], np.array([0.6, 0.0]), mx.float32, 1e-5, f"{case}: a", 4)
    compare(found["b"], np.array([0.0, 0.8]), mx.float32, 1e-5, f"{case}: b", 4)


@by_dtype
def test_task_7_clipping_zeros(dtype):
    check(mx.zeros(13, dtype), 1.0, seed=0)


def test_task_7_clipping_no_gradients():
    with noted("no gradients, max_norm 1"):
        found, norm = clipping.clip_by_global_norm({}, 1.0)
    fail_if_different("the gradients", {}, found, "no gradients, max_norm 1")
    compare(norm, np.array(0.0), mx.float32, 0.0, "no gradients, max_norm 1: the norm", 0)


def test_task_7_clipping_tiny_norms():
    """A max_norm as small as the 1e-6 that is added to the norm."""
    check(normals(3)(13) * 1e-6, 1e-6, seed=3)


@pytest.mark.parametrize("max_norm", [4e-6, 5e-6, 5.5e-6, 6e-6, 7e-6])
def test_task_7_clipping_norm_near_the_limit(max_norm):
    """The norm is 5e-6: with the 1e-6 that is added, limits up to 6e-6 shorten the gradients."""
    check(mx.array([3e-6, 0.0, -4e-6] + [0.0] * 10), max_norm, seed=0)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_7_clipping_in_float32(dtype):
    """Squares of 300 overflow float16; a sum of 5,000 of them loses digits in both narrow dtypes."""
    check((normals(4, dtype)(5002) * 300).astype(dtype), 10.0, seed=4)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_7_clipping_tiny_factor(dtype):
    """The factor is below float16's smallest number, and the gradients times the factor are not."""
    check((normals(11, dtype)(13) * 10_000).astype(dtype), 1e-3, seed=11)


def test_task_7_clipping_each_its_own_dtype():
    draw = normals(5)
    grads = {"w": draw(3, 4).astype(mx.bfloat16), "b": draw(4), "h": draw(5).astype(mx.float16)}
    case = "w in bfloat16, b in float32, h in float16, max_norm 1, seed 5"
    numbers = np.concatenate([to_float64(g).flatten() for g in grads.values()])
    with noted(case):
        found, norm = clipping.clip_by_global_norm(grads, 1.0)
    compare(norm, norm64(numbers, 1.0), mx.float32, 1e-5, f"{case}: the norm", 21)
    for name, grad in grads.items():
        expected = to_float64(grad) / np.sqrt((numbers**2).sum())
        compare(found[name], expected, grad.dtype, 0.01, f"{case}: {name}", 21)


def test_task_7_clipping_mlx():
    """mlx.optimizers.clip_grad_norm, with a norm above and below the limit."""
    grads = {"w": normals(6)(3, 4), "b": normals(7)(5)}
    for max_norm in (0.7, 100.0):
        case = f"float32, w 3 x 4, b 5, max_norm {max_norm}"
        expected, total = mlx.optimizers.clip_grad_norm(grads, max_norm)
        with noted(case):
            found, norm = clipping.clip_by_global_norm(grads, max_norm)
        compare(norm, to_float64(total), mx.float32, 1e-5, f"{case}: the norm", 17)
        for name in grads:
            compare(found[name], to_float64(expected[name]), mx.float32, 1e-5, f"{case}: {name}", 17)


@pytest.mark.parametrize("size", [0.0, 1e-6, 0.3, 20.0])
def test_task_7_clipping_pytorch(pytorch, size):
    """torch.nn.utils.clip_grad_norm_, from a zero gradient to a large one."""
    grads = normals(8)(13) * size

    def clip(torch, grads, max_norm):
        params = [torch.nn.Parameter(torch.zeros_like(part)) for part in grads.split([8, 4, 1])]
        for param, part in zip(params, grads.split([8, 4, 1]), strict=True):
            param.grad = part.clone()
        norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
        return torch.cat([*(param.grad for param in params), norm[None]])

    answer = pytorch(clip, grads, 1.0)
    agrees(clipped, clipped64, grads, 1.0, seed=8, expected=answer[:-1])
    agrees(norm, norm64, grads, 1.0, seed=8, expected=answer[-1])


@pytest.mark.parametrize("bad", [mx.inf, mx.nan], ids=str)
def test_task_7_clipping_reports_a_norm_that_is_not_finite(bad):
    case = f"grads w (1, {bad}), max_norm 1"
    with noted(case):
        _, norm = clipping.clip_by_global_norm({"w": mx.array([1.0, bad])}, 1.0)
    compare(norm, np.array(float(bad)), mx.float32, 0.0, f"{case}: the norm", 2)


def test_task_7_clipping_changes_nothing_in_place():
    grads = {"w": normals(9)(3, 4), "b": normals(10)(5)}
    before = {name: to_float64(grad) for name, grad in grads.items()}
    case = "float32, w 3 x 4, b 5, max_norm 0.1"
    with noted(case):
        mx.eval(clipping.clip_by_global_norm(grads, 0.1))
    for name, grad in before.items():
        if not np.array_equal(to_float64(grads[name]), grad):
            fail(Kind.INPUT_CHANGED, f"the caller's grads[{name!r}] was changed", case)


def test_task_7_clipping_sweep():
    for n in sweep(A=4200):
        grads = (normals(n.seed, n.dtype)(3 * n.A + 1) * n.spread).astype(n.dtype)
        check(grads, n.turn(1.0, 0.1, 100.0), seed=n)


@property_test
@given(size=st.sampled_from([0.01, 1.0, 100.0]), seed=st.integers(0, 99))
def test_task_7_clipping_keeps_the_direction(size, seed):
    """Clipped to norm 1 at most, and clipped again unchanged."""
    grads = normals(seed)(13) * size
    case = f"float32, 13 numbers times {size}, max_norm 1, seed {seed}, clipped twice"
    with noted(case):
        once = clipped(grads, 1.0)
        twice, after = both(once, 1.0)
    wide = to_float64(grads)
    length = np.sqrt((wide**2).sum())
    compare(once, wide * min(1.0, 1.0 / length), mx.float32, 1e-5, case, 13)
    compare(twice, to_float64(once), mx.float32, 1e-5, case, 13)
    if float(after) > 1.00001:
        fail(Kind.VALUES, f"the clipped gradients' norm is {float(after):.4g}, above max_norm", case)


@pytest.mark.parametrize("max_norm", [0.0, -1.5])
def test_task_7_clipping_refuses_other_norms(max_norm):
    with raises_value_error(f"grads w 3, max_norm {max_norm}", str(max_norm)):
        clipping.clip_by_global_norm({"w": mx.ones(3)}, max_norm)
