"""Task 5.6.4, the GRPO loss, checked against the formula in float64, mx.grad against its derivative, and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day6 import POLICY_FIELDS, grpo64, grpo_slopes64
from tests.week5.preferred import completions

from tiny_llm.preferences import grpo
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

by_field = pytest.mark.parametrize("field", POLICY_FIELDS)


def part(logprobs, sampler_logprobs, reference_logprobs, advantages, mask, clip, beta, field):
    """One field of the learner's result."""
    found = grpo.grpo_loss(logprobs, sampler_logprobs, reference_logprobs, advantages, mask, clip, beta)
    if not hasattr(found, field):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a PolicyLoss", f"{len(logprobs)} completions")
    return getattr(found, field)


def agree(arrays, field, clip=0.2, beta=0.04, **options):
    agrees(part, grpo64, *arrays, clip, beta, field, dtype=mx.float32, **options)


def one_token(ratio, advantage, reference=0.0):
    """A single token whose probability under the policy is `ratio` times the sampler's."""
    logs = [mx.array([[float(np.log(ratio)) - 1.0]]), mx.array([[-1.0]]), mx.array([[reference - 1.0]])]
    return *logs, mx.array([float(advantage)]), mx.array([[True]])


@by_field
@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0])
def test_task_4_grpo_formula(spread, field):
    agree(completions(1, spread=spread), field, seed=1)


@by_field
@by_dtype
def test_task_4_grpo_narrow(dtype, field):
    """The log-probabilities are rounded to the dtype, and the rest is float32."""
    policy, sampler, reference, advantages, mask = completions(2)
    agree((policy.astype(dtype), sampler.astype(dtype), reference.astype(dtype), advantages, mask), field, seed=2)


@by_field
@pytest.mark.parametrize("clip", [0.0, 0.1, 0.5])
def test_task_4_grpo_clip(clip, field):
    agree(completions(3), field, clip, seed=3)


@by_field
@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
def test_task_4_grpo_beta(beta, field):
    agree(completions(4), field, beta=beta, seed=4)


@by_field
def test_task_4_grpo_on_policy(field):
    """The policy is the sampler and the reference: the ratios are 1, the KL is 0, and the loss is -mean of A.

    With a clip of 0, a ratio of 1 is at the limit, and is not clipped.
    """
    _, sampler, _, advantages, mask = completions(5)
    agree((sampler, sampler, sampler, advantages, mask), field, seed=5)
    case = "4 completions of 6 tokens, all log-probabilities equal, clip 0, seed 5"
    with noted(case):
        found = part(sampler, sampler, sampler, advantages, mask, 0.0, 0.04, field)
    expected = grpo64(*map(to_float64, (sampler, sampler, sampler, advantages, mask)), 0.0, 0.04, field)
    compare(found, expected, mx.float32, 1e-5, f"{case}: {field}", 24)


@by_field
@pytest.mark.parametrize("advantage", [-2.0, 2.0])
@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.1, 1.5])
def test_task_4_grpo_one_token(ratio, advantage, field):
    """Clipping ends the reward for moving further; a wrong move is never clipped."""
    agree(one_token(ratio, advantage), field, beta=0.0, seed=0)


@by_field
@pytest.mark.parametrize("reference", [-1.0, 0.0, 1.0])
def test_task_4_grpo_divergence(reference, field):
    """Advantage 0: the loss is the KL alone, which is not symmetric, and never negative."""
    agree(one_token(1.0, 0.0, reference), field, beta=1.0, seed=0)


@by_field
def test_task_4_grpo_equal_rewards(field):
    """A group without differences: only the KL has a gradient."""
    policy, sampler, reference, advantages, mask = completions(6)
    agree((policy, sampler, reference, mx.zeros_like(advantages), mask), field, seed=6)


@by_field
def test_task_4_grpo_short_and_long(field):
    """One token against five: each token has the same weight."""
    policy, sampler, reference, _, _ = completions(7, 2, 6)
    mask = mx.array([[False, True, False, False, False, False], [False, True, True, True, True, True]])
    agree((policy, sampler, reference, mx.array([3.0, -1.0]), mask), field, seed=7)


@by_field
@pytest.mark.parametrize("count", [1, 3, 5])
def test_task_4_grpo_square(count, field):
    """As many completions as tokens: an advantage is a row's."""
    policy, sampler, reference, advantages, _ = completions(8, count, count)
    agree((policy, sampler, reference, advantages, mx.ones((count, count), mx.bool_)), field, seed=8)


@by_field
def test_task_4_grpo_nothing_counts(field):
    *arrays, mask = completions(9)
    agree((*arrays, mx.zeros_like(mask)), field, seed=9)


def test_task_4_grpo_ignores_what_is_masked():
    """NaN and infinities where the mask is False: neither the loss nor its gradient shows it."""
    policy, sampler, reference, advantages, mask = completions(10)
    bad = [mx.where(mask, x, value) for x, value in ((policy, mx.nan), (sampler, -mx.inf), (reference, mx.nan))]
    case = "4 completions of 6 tokens, seed 10, with NaN and -inf where the mask is False"
    with noted(case):
        loss, gradient = mx.value_and_grad(lambda p: grpo.grpo_loss(p, *bad[1:], advantages, mask).loss)(bad[0])
        mx.eval(loss, gradient)
    arrays = [to_float64(x) for x in (policy, sampler, reference, advantages, mask)]
    compare(loss, grpo64(*arrays), mx.float32, 1e-5, case, 24)
    compare(gradient, grpo_slopes64(*arrays), mx.float32, 1e-5, f"{case}, the gradient", 24)


@by_field
def test_task_4_grpo_no_field_shows_what_is_masked(field):
    """Neither the KL nor the share that is clipped."""
    policy, sampler, reference, advantages, mask = completions(15)
    bad = [mx.where(mask, x, value) for x, value in ((policy, mx.nan), (sampler, -mx.inf), (reference, mx.nan))]
    case = f"4 completions of 6 tokens, seed 15, with NaN and -inf where the mask is False: {field}"
    with noted(case):
        found = part(*bad, advantages, mask, 0.2, 0.04, field)
    arrays = [to_float64(x) for x in (policy, sampler, reference, advantages, mask)]
    compare(found, grpo64(*arrays, field=field), mx.float32, 1e-5, case, 24)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_task_4_grpo_gradient(spread):
    """A clipped token has no gradient but that of its KL."""

    def slope(*arrays):
        return mx.grad(lambda p, *others: grpo.grpo_loss(p, *others).loss)(*arrays)

    agrees(slope, grpo_slopes64, *completions(11, spread=spread), seed=11)


@by_field
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_task_4_grpo_pytorch(pytorch, beta, field):
    """PyTorch, with the loss written out."""
    policy, sampler, reference, advantages, mask = completions(12, spread=0.5)

    def theirs(torch, policy, sampler, reference, advantages, mask):
        mask, a = mask.bool(), advantages[:, None]
        ratio = torch.exp(policy - sampler)
        gains = torch.min(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a)
        kl = torch.exp(reference - policy) - (reference - policy) - 1
        clipped = ((ratio > 1.2) & (a > 0)) | ((ratio < 0.8) & (a < 0))
        found = {"loss": beta * kl - gains, "kl": kl, "clipped": clipped.float()}
        return found[field][mask].mean()[None]

    expected = pytorch(theirs, policy, sampler, reference, advantages, mask.astype(mx.float32))
    agree((policy, sampler, reference, advantages, mask), field, beta=beta, seed=12, expected=expected[0])


def test_task_4_grpo_gradient_pytorch(pytorch):
    arrays = completions(13, spread=0.5)

    def theirs(torch, policy, sampler, reference, advantages, mask):
        policy.requires_grad_()
        a, ratio = advantages[:, None], torch.exp(policy - sampler)
        gains = torch.min(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a)
        kl = torch.exp(reference - policy) - (reference - policy) - 1
        (0.04 * kl - gains)[mask.bool()].mean().backward()
        return policy.grad

    def slope(*arrays):
        return mx.grad(lambda p, *others: grpo.grpo_loss(p, *others).loss)(*arrays)

    expected = pytorch(theirs, *arrays[:-1], arrays[-1].astype(mx.float32))
    agrees(slope, grpo_slopes64, *arrays, seed=13, expected=expected)


def test_task_4_grpo_compiled():
    """Under mx.compile no number may be read on the way."""
    agrees(
        mx.compile(lambda *arrays: grpo.grpo_loss(*arrays).loss),
        lambda p, s, q, a, m, *, r=exact: grpo64(p, s, q, a, m, r=r),
        *completions(14), dtype=mx.float32, seed=14,
    )  # fmt: skip


def test_task_4_grpo_sweep():
    for n in sweep(N=20, L=140):
        spread = min(n.spread, 1.0)
        arrays = completions(n.seed, n.N, n.L, spread)
        agree(arrays, n.turn(*POLICY_FIELDS), n.turn(0.2, 0.05), n.turn(0.04, 1.0), seed=n)


@property_test
@given(seed=st.integers(0, 99), extra=st.integers(1, 4))
def test_task_4_grpo_padding_changes_nothing(seed, extra):
    *arrays, advantages, mask = completions(seed)
    case = f"4 completions of 6 tokens, seed {seed}: the loss against that with {extra} more columns of padding"

    def longer(x):
        return mx.concatenate([x, mx.full((4, extra), -9.0).astype(x.dtype) if x is not mask else mx.zeros(
            (4, extra), mx.bool_)], axis=1)  # fmt: skip

    with noted(case):
        plain = grpo.grpo_loss(*arrays, advantages, mask).loss
        padded = grpo.grpo_loss(*map(longer, arrays), advantages, longer(mask)).loss
    compare(padded, to_float64(plain), mx.float32, 1e-5, case, 24)


WRONG = {
    "sampler": ((3, 4), (3, 5), (3, 4), (3,), (3, 4)),
    "reference": ((3, 4), (3, 4), (4,), (3,), (3, 4)),
    "mask": ((3, 4), (3, 4), (3, 4), (3,), (3, 1)),
    "an advantage per token": ((3, 4), (3, 4), (3, 4), (4,), (3, 4)),
    "an advantage for each token": ((3, 4), (3, 4), (3, 4), (3, 4), (3, 4)),
    "a column of advantages": ((3, 4), (3, 4), (3, 4), (3, 1), (3, 4)),
    "groups": ((3, 4), (3, 4), (3, 4), (1, 3), (3, 4)),
    "one row": ((4,), (4,), (4,), (4,), (4,)),
}


@pytest.mark.parametrize("name", WRONG)
def test_task_4_grpo_refuses_other_shapes(name):
    *shapes, mask = WRONG[name]
    with raises_value_error(f"{name}: shapes {WRONG[name]}", *map(str, WRONG[name])):
        mx.eval(grpo.grpo_loss(*map(mx.zeros, shapes), mx.ones(mask, mx.bool_)).loss)
