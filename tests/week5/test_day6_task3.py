"""Task 5.6.3, group-relative advantages, checked against the formula in float64, MLX's operators and PyTorch."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day6 import advantages64

from tiny_llm.preferences import advantages
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def agree(rewards, *more, **options):
    agrees(advantages.group_advantages, advantages64, rewards, *more, dtype=mx.float32, **options)


@by_dtype
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_task_3_advantages_formula(leading, dtype):
    agree(normals(1, dtype)(*leading, 5), seed=1)


def test_task_3_advantages_small_numbers():
    """Rewards 1, 0, 0 and 1: the mean is 0.5, the sample's standard deviation 1 / sqrt(3)."""
    a = 0.5 / (1 / math.sqrt(3) + 1e-4)
    agree(mx.array([1.0, 0.0, 0.0, 1.0]), seed=0, expected=np.array([a, -a, -a, a]))


def test_task_3_advantages_one_of_eight():
    """The rarer a success is, the larger its advantage."""
    agree(mx.array([[0.0] * 7 + [1.0], [1.0] * 4 + [0.0] * 4]), seed=0)


def exactly_zero(rewards, eps, which, case):
    """Check that the groups with equal rewards have advantages of 0, without any rounding."""
    with noted(case):
        actual = advantages.group_advantages(rewards, eps)[which]
    compare(actual, np.zeros(actual.shape), mx.float32, 0.0, case, actual.size)


@by_dtype
@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0, 1e4])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_task_3_advantages_equal_rewards(size, reward, dtype):
    """Exactly 0, although 0.1 + 0.1 + 0.1 divided by 3 need not be 0.1."""
    rewards = mx.full((2, size), reward, dtype)
    agree(rewards, seed=0)
    exactly_zero(rewards, 1e-4, slice(None), f"{dtype}, 2 groups of {size} rewards, all {reward:g}")


@pytest.mark.parametrize("eps", [0.0, 1e-8])
def test_task_3_advantages_equal_rewards_without_eps(eps):
    """One group has equal rewards, the other one has not: no NaN, and no rounding blown up."""
    for size in (3, 6, 7):
        rewards = mx.array([[0.1] * size, [0.1, 0.3, 0.2] + [0.0] * (size - 3)])
        exactly_zero(rewards, eps, 0, f"rewards 2 x {size}, the first {size} all 0.1, eps {eps:g}")
        agree(rewards[1], eps, seed=0)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_task_3_advantages_square(size):
    """As many prompts as completions: the groups are the rows."""
    agree(normals(2)(size, size), seed=2)


def test_task_3_advantages_groups_of_other_difficulty():
    """Hard and easy prompts: each group has its own mean and deviation."""
    agree(mx.array([[10.0, 11.0, 12.0], [0.0, 0.1, 0.3], [-5.0, 0.0, 5.0]]), seed=0)


def test_task_3_advantages_integers():
    agree(mx.array([[1, 0, 3, 0], [2, 2, 2, 2]]), seed=0)


@pytest.mark.parametrize("eps", [1e-8, 0.1, 1.0])
def test_task_3_advantages_eps(eps):
    """eps is added to the deviation, not to the variance."""
    agree(normals(3)(2, 4), eps, seed=3)


def test_task_3_advantages_small_differences():
    """Rewards that hardly differ are not equal."""
    agree(mx.array([[0.0, 1e-7, 3e-7], [0.0, 1.0, 3.0]]), 1e-9, seed=0)


def test_task_3_advantages_far_from_zero():
    """Rewards near 1,000 that differ by 1."""
    agree(normals(4)(3, 6) + 1000, seed=4)


def test_task_3_advantages_mlx():
    rewards = normals(5)(3, 6)
    centered = rewards - mx.mean(rewards, axis=-1, keepdims=True)
    agree(rewards, seed=5, expected=to_float64(centered / (mx.std(rewards, axis=-1, keepdims=True, ddof=1) + 1e-4)))


@pytest.mark.parametrize("eps", [1e-4, 0.5])
def test_task_3_advantages_pytorch(pytorch, eps):
    rewards = normals(6)(3, 4)

    def reference(torch, rewards):
        return (rewards - rewards.mean(dim=-1, keepdim=True)) / (rewards.std(dim=-1, keepdim=True) + eps)

    agree(rewards, eps, seed=6, expected=pytorch(reference, rewards))


def test_task_3_advantages_sweep():
    for n in sweep(P=40, G=1100):
        rewards = (normals(n.seed, n.dtype)(n.P, n.G) * n.spread).astype(n.dtype)
        agree(n.turn(rewards, rewards[0]), seed=n)


@property_test
@given(scale=st.floats(0.5, 100), shift=st.floats(-100, 100), seed=st.integers(0, 99))
def test_task_3_advantages_of_other_units(scale, shift, seed):
    """Rewards in other units have the same advantages, up to eps."""
    rewards = normals(seed)(2, 5)
    case = f"rewards 2 x 5, seed {seed}, against the same times {scale:.4g} plus {shift:.4g}"
    with noted(case):
        plain = advantages.group_advantages(rewards, 1e-8)
        other = advantages.group_advantages(rewards * scale + shift, 1e-8)
    compare(other, to_float64(plain), mx.float32, 5e-3, case, 10)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)], ids=str)
def test_task_3_advantages_refuses_no_rewards(shape):
    with raises_value_error(f"rewards of shape {shape}", str(shape)):
        mx.eval(advantages.group_advantages(mx.zeros(shape)))
