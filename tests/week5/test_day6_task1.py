"""Task 5.6.1, log-probabilities of given tokens, checked against the formula in float64, MLX's loss and PyTorch."""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day6 import IGNORE, logprobs64, slopes64
from tests.week5.logits import far, logits_and_targets, padded

from tiny_llm.preferences import logprobs
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


def agree(logits, targets, *more, **options):
    agrees(logprobs.token_logprobs, logprobs64, logits, targets, *more, dtype=mx.float32, **options)


@by_dtype
@pytest.mark.parametrize("leading", [(4,), (3, 4), (2, 3, 4)], ids=str)
def test_task_1_logprobs_formula(leading, dtype):
    agree(*logits_and_targets(1, dtype, leading), seed=1)


@by_dtype
@pytest.mark.parametrize("leading", [(5,), (3, 4)], ids=str)
def test_task_1_logprobs_ignored(leading, dtype):
    """About half of the targets are -100."""
    agree(*logits_and_targets(2, dtype, leading, ignored=0.5), seed=2)


@by_dtype
@pytest.mark.parametrize("temp", [0.5, 0.7, 1.0, 2.0])
def test_task_1_logprobs_temperature(temp, dtype):
    agree(*logits_and_targets(3, dtype, ignored=0.3), temp, seed=3)


def test_task_1_logprobs_four_tokens():
    """Four equally likely tokens: -ln 4 = -1.3863 at any temperature, and 0 where nothing counts."""
    for temp in (1.0, 0.5):
        agree(mx.zeros((2, 4)), mx.array([0, IGNORE]), temp, seed=0)


def test_task_1_logprobs_a_sharper_model():
    """Logits ln 3 and 0 are 3 to 1; at a temperature of 0.5 they are 9 to 1: ln 0.9 and ln 0.1."""
    logits = mx.array([[math.log(3), 0.0]] * 2)
    agree(logits, mx.array([0, 1]), 0.5, seed=0, expected=np.log([0.9, 0.1]))


@by_dtype
@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_task_1_logprobs_far_from_zero(shift, dtype):
    """All logits near 10,000 or -10,000: exp of them is infinite or 0."""
    agree(*far(dtype, shift), seed=4)


def test_task_1_logprobs_unlikely_tokens():
    """The target's logit is 200 below the largest: its probability is 0 in float32, and its logarithm -200."""
    agree(mx.array([[200.0, 0.0, 0.0]]), mx.array([1]), seed=0)


@pytest.mark.parametrize("ignore_index", [0, 6, -1])
def test_task_1_logprobs_other_ignore_index(ignore_index):
    """Also one that is a token of the vocabulary, as padding may be."""
    logits, targets, ignored = padded(5, ignore_index)
    agree(logits, targets, 1.0, ignored, seed=5)


@pytest.mark.parametrize("leading", [(3,), (2, 3)], ids=str)
def test_task_1_logprobs_nothing_counts(leading):
    agree(logits_and_targets(6, leading=leading)[0], mx.full(leading, IGNORE), seed=6)


@by_dtype
def test_task_1_logprobs_ignores_nan(dtype):
    """The logits of ignored positions are NaN or infinite: neither the result nor its gradient shows it."""
    logits, targets = logits_and_targets(8, dtype, (4,))
    logits[1], logits[3], targets[1], targets[3] = mx.nan, mx.inf, IGNORE, IGNORE
    case = f"{dtype}, logits 4 x 7, of which two rows are NaN and inf, targets 4, these two ignored, seed 8"
    with noted(case):
        value, gradient = mx.value_and_grad(lambda x: mx.sum(logprobs.token_logprobs(x, targets)))(logits)
        mx.eval(value, gradient)
    clean = to_float64(mx.where(mx.isfinite(logits), logits, 0.0))
    expected = logprobs64(clean, to_float64(targets)).sum()
    compare(value, np.asarray(expected), mx.float32, 1e-5 * abs(expected), f"{case}, the sum", 28)
    slopes = slopes64(clean, to_float64(targets), np.ones(4))
    compare(gradient, slopes, dtype, 0.01, f"{case}, the gradient of the sum", 28)


@pytest.mark.parametrize("temp", [1.0, 0.5])
def test_task_1_logprobs_gradient(temp):
    """mx.grad of a weighted sum is weight * (one-hot - softmax) / temp."""
    weights = normals(9)(3, 4)

    def slope(logits, targets):
        return mx.grad(lambda x: mx.sum(weights * logprobs.token_logprobs(x, targets, temp)))(logits)

    def by_formula(logits, targets, *, r=exact):
        return slopes64(logits, targets, to_float64(weights), temp, r=r)

    agrees(slope, by_formula, *logits_and_targets(9, ignored=0.3), seed=9)


@by_dtype
def test_task_1_logprobs_mlx(dtype):
    logits, targets = logits_and_targets(10, dtype)
    expected = -nn.losses.cross_entropy(logits.astype(mx.float32), targets, reduction="none")
    agree(logits, targets, seed=10, expected=to_float64(expected))


@by_dtype
@pytest.mark.parametrize("temp", [1.0, 0.7])
def test_task_1_logprobs_pytorch(pytorch, temp, dtype):
    logits, targets = logits_and_targets(11, dtype, ignored=0.4)

    def reference(torch, logits, targets):
        logs = torch.log_softmax(logits.float() / temp, dim=-1)
        chosen = logs.gather(-1, targets.clamp(min=0).long()[..., None])[..., 0]
        return torch.where(targets >= 0, chosen, 0.0)

    agree(logits, targets, temp, seed=11, expected=pytorch(reference, logits, targets))


def test_task_1_logprobs_compiled():
    """Under mx.compile no number may be read on the way."""
    agrees(
        mx.compile(lambda logits, targets: logprobs.token_logprobs(logits, targets)), logprobs64,
        *logits_and_targets(12, ignored=0.3), dtype=mx.float32, seed=12,
    )  # fmt: skip


def test_task_1_logprobs_sweep():
    for n in sweep(N=20, L=1100, V=4200):
        leading = n.turn((n.N, n.L), (n.L,), (n.L, 1, n.N))
        logits, targets = logits_and_targets(n.seed, n.dtype, leading, n.V, 1.0, n.turn(0.0, 0.5, 0.9))
        agree((logits * n.spread + n.shift).astype(n.dtype), targets, n.turn(1.0, 0.7, 1.5), seed=n)


@property_test
@given(temp=st.floats(0.25, 4), seed=st.integers(0, 99))
def test_task_1_logprobs_are_probabilities(temp, seed):
    """The probabilities of all tokens sum to 1."""
    logits = normals(seed)(3, 7)
    case = f"float32, logits 3 x 7, each with targets 0 to 6, temp {temp:.3g}, seed {seed}: the sum of exp"
    with noted(case):
        rows = mx.broadcast_to(logits[:, None], (3, 7, 7))
        actual = mx.sum(mx.exp(logprobs.token_logprobs(rows, mx.broadcast_to(mx.arange(7), (3, 7)), temp)), axis=-1)
    compare(actual, np.ones(3), mx.float32, 1e-5, case, 147)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_logprobs_padding_changes_nothing(dtype):
    """A sequence's sum is the same with padding after it."""
    logits, targets = logits_and_targets(13, dtype, (5,))
    case = f"{dtype}, logits 5 x 7 and 3 x 7 of padding, seed 13: the sum against that without padding"
    with noted(case):
        alone = mx.sum(logprobs.token_logprobs(logits, targets), axis=-1)
        more = mx.concatenate([logits, normals(14, dtype)(3, 7)]), mx.concatenate([targets, mx.full(3, IGNORE)])
        padded_sum = mx.sum(logprobs.token_logprobs(*more), axis=-1)
    compare(padded_sum, to_float64(alone), mx.float32, 1e-5, case, 56)


@pytest.mark.parametrize("shape", [(3,), (3, 4, 1), (4, 3), (2, 4)], ids=str)
def test_task_1_logprobs_refuses_other_shapes(shape):
    with raises_value_error(f"logits 3 x 4 x 7, targets {shape}", str(shape), "(3, 4)"):
        mx.eval(logprobs.token_logprobs(mx.zeros((3, 4, 7)), mx.zeros(shape, mx.int32)))


@pytest.mark.parametrize("temp", [0.0, -0.5])
def test_task_1_logprobs_refuses_temperature(temp):
    with raises_value_error(f"logits 4 x 7, targets 4, temp {temp}", str(temp)):
        mx.eval(logprobs.token_logprobs(mx.zeros((4, 7)), mx.zeros(4, mx.int32), temp))
