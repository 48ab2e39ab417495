"""Task 5.6.2, the DPO loss, checked against the formula in float64, MLX's operators and PyTorch."""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day6 import PREFERENCE_FIELDS, dpo64, dpo_slopes64
from tests.week5.preferred import pairs

from tiny_llm.preferences import dpo
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

by_field = pytest.mark.parametrize("field", PREFERENCE_FIELDS)


def part(chosen, rejected, reference_chosen, reference_rejected, beta, field):
    """One field of the learner's result."""
    found = dpo.dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta)
    if not hasattr(found, field):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a PreferenceLoss", f"{len(chosen)} pairs")
    return getattr(found, field)


def agree(arrays, beta, field, **options):
    agrees(part, dpo64, *arrays, beta, field, dtype=mx.float32, **options)


@by_field
@by_dtype
@pytest.mark.parametrize("count", [1, 2, 5])
def test_task_2_dpo_formula(count, dtype, field):
    agree(pairs(1, dtype, count), 0.1, field, seed=1)


@by_field
@pytest.mark.parametrize("beta", [0.01, 0.5, 1.0, 3.0])
def test_task_2_dpo_beta(beta, field):
    agree(pairs(2), beta, field, seed=2)


@by_field
def test_task_2_dpo_small_numbers(field):
    """The policy likes the chosen answer by 3 more than the reference, the rejected one by 1 less; beta is 0.5."""
    expected = {
        "loss": math.log1p(math.exp(-2)), "chosen_rewards": [1.5], "rejected_rewards": [-0.5], "accuracy": 1.0,
    }  # fmt: skip
    arrays = [mx.array([x]) for x in (-10.0, -21.0, -13.0, -20.0)]
    agree(arrays, 0.5, field, seed=0, expected=np.array(expected[field]))


@by_field
def test_task_2_dpo_untrained(field):
    """The policy is the reference: no rewards, ln 2 = 0.6931 of loss, and no pair counts as right."""
    chosen, rejected, _, _ = pairs(3)
    agree((chosen, rejected, chosen, rejected), 0.1, field, seed=3)


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_task_2_dpo_ties(beta):
    """Two pairs have equal rewards, and the third is right."""
    chosen, rejected = mx.array([-5.0, -3.0, -4.0]), mx.array([-6.0, -7.0, -9.0])
    case = f"3 pairs, of which two have equal rewards, beta {beta}: the accuracy"
    with noted(case):
        actual = part(
            chosen, rejected, chosen + mx.array([0.0, 1.0, 0.0]), rejected + mx.array([0.0, 1.0, 2.0]), beta, "accuracy"
        )
    compare(actual, np.array(1 / 3), mx.float32, 1e-6, case, 3)


@by_field
@pytest.mark.parametrize("shift", [-1000.0, -100.0, 100.0, 1000.0])
def test_task_2_dpo_far_apart(shift, field):
    """Log-probabilities of long answers differ by hundreds: exp of them is infinite or 0."""
    chosen, rejected, reference_chosen, reference_rejected = pairs(4)
    agree((chosen + shift, rejected, reference_chosen, reference_rejected), 1.0, field, seed=4)


@by_field
def test_task_2_dpo_some_right(field):
    """Two of three pairs are right; one of these is likelier under the reference, too."""
    arrays = [mx.array(x) for x in ([-5.0, -5.0, -5.0], [-6.0, -4.0, -6.0], [-6.0, -6.0, -5.0], [-8.0, -4.0, -7.5])]
    agree(arrays, 0.1, field, seed=0)


@pytest.mark.parametrize("shift", [-1000.0, 0.0, 1000.0])
def test_task_2_dpo_gradient(shift):
    """The gradient: a pair that is wrong pulls, one that is right by far does not. No NaN at any distance."""

    def slopes(*arrays):
        return mx.stack(mx.grad(lambda *x: dpo.dpo_loss(*x, 0.3).loss, (0, 1))(*arrays))

    def by_formula(chosen, rejected, reference_chosen, reference_rejected, *, r=exact):
        return dpo_slopes64(chosen, rejected, reference_chosen, reference_rejected, 0.3, r=r)

    chosen, *others = pairs(5)
    agrees(slopes, by_formula, chosen + shift, *others, seed=5)


def test_task_2_dpo_gradient_untrained():
    """Before the first step, policy and reference are equal: each pair still pulls by beta / 2, as it must."""

    def slopes(chosen, rejected):
        references = mx.stop_gradient(chosen), mx.stop_gradient(rejected)
        return mx.stack(mx.grad(lambda *x: dpo.dpo_loss(*x, *references, 0.3).loss, (0, 1))(chosen, rejected))

    def by_formula(chosen, rejected, *, r=exact):
        return dpo_slopes64(chosen, rejected, chosen, rejected, 0.3, r=r)

    agrees(slopes, by_formula, *pairs(9)[:2], seed=9)


def test_task_2_dpo_mlx():
    """MLX's log-sigmoid of the margins."""
    chosen, rejected, reference_chosen, reference_rejected = arrays = pairs(6)
    margins = 0.1 * ((chosen - reference_chosen) - (rejected - reference_rejected))
    agree(arrays, 0.1, "loss", seed=6, expected=to_float64(-mx.mean(nn.log_sigmoid(margins))))


@by_field
@pytest.mark.parametrize("beta", [0.1, 2.0])
def test_task_2_dpo_pytorch(pytorch, beta, field):
    """PyTorch, with the loss written out."""
    arrays = pairs(7)

    def reference(torch, chosen, rejected, reference_chosen, reference_rejected):
        rewards = beta * (chosen - reference_chosen), beta * (rejected - reference_rejected)
        loss = -torch.nn.functional.logsigmoid(rewards[0] - rewards[1]).mean()
        found = loss, *rewards, (rewards[0] > rewards[1]).float().mean()
        return torch.atleast_1d(found[PREFERENCE_FIELDS.index(field)])

    expected = pytorch(reference, *arrays)
    agree(arrays, beta, field, seed=7, expected=expected if "rewards" in field else expected[0])


def test_task_2_dpo_compiled():
    """Under mx.compile no number may be read on the way."""
    agrees(
        mx.compile(lambda *arrays: dpo.dpo_loss(*arrays).loss),
        lambda a, b, c, d, *, r=exact: dpo64(a, b, c, d, r=r),
        *pairs(8), dtype=mx.float32, seed=8,
    )  # fmt: skip


def test_task_2_dpo_sweep():
    for n in sweep(B=4200):
        for field in n.each(*PREFERENCE_FIELDS):
            arrays = [(x * n.spread).astype(n.dtype) for x in pairs(n.seed, n.dtype, n.B)]
            agree(arrays, n.turn(0.1, 1.0), field, seed=n)


@property_test
@given(shift=st.floats(-50, 50), seed=st.integers(0, 99))
def test_task_2_dpo_compares_with_the_reference(shift, seed):
    """An answer that both models find likelier by the same factor has the same loss."""
    chosen, rejected, reference_chosen, reference_rejected = pairs(seed)
    case = f"5 pairs, seed {seed}: the loss with {shift:.4g} added to both log-probabilities of the chosen"
    with noted(case):
        plain = dpo.dpo_loss(chosen, rejected, reference_chosen, reference_rejected).loss
        moved = dpo.dpo_loss(chosen + shift, rejected, reference_chosen + shift, reference_rejected).loss
    compare(moved, to_float64(plain), mx.float32, 1e-4, case, 5)


WRONG = {
    "other lengths": ((3,), (4,), (3,), (3,)),
    "another reference": ((3,), (3,), (3,), (1,)),
    "other references": ((3,), (3,), (1,), (1,)),
    "one rejected": ((3,), (1,), (3,), (1,)),
    "one chosen": ((1,), (3,), (1,), (3,)),
    "not summed": ((3, 4), (3, 4), (3, 4), (3, 4)),
    "no pairs": ((0,), (0,), (0,), (0,)),
    "scalars": ((), (), (), ()),
}


@pytest.mark.parametrize("name", WRONG)
def test_task_2_dpo_refuses_other_shapes(name):
    with raises_value_error(f"{name}: log-probabilities of shapes {WRONG[name]}", *map(str, WRONG[name])):
        mx.eval(dpo.dpo_loss(*map(mx.zeros, WRONG[name])).loss)


@pytest.mark.parametrize("beta", [0.0, -0.1])
def test_task_2_dpo_refuses_beta(beta):
    with raises_value_error(f"3 pairs, beta {beta}", str(beta)):
        mx.eval(dpo.dpo_loss(*(mx.zeros(3) for _ in range(4)), beta).loss)
