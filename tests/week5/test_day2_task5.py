"""Task 5.2.5, the gradient of cross-entropy, checked against its formula in float64, MLX's and PyTorch's."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day2 import IGNORE, cross_entropy64, gradient64
from tests.week5.logits import logits_and_targets

from tiny_llm.dataset import loss
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def gradients(*args, **options):
    agrees(loss.cross_entropy_vjp, gradient64, *args, **options)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (3, 4), (2, 3, 4)], ids=str)
def test_task_5_gradient_formula(leading, dtype):
    gradients(*logits_and_targets(1, dtype, leading), seed=1)


@by_dtype
@pytest.mark.parametrize("leading", [(5,), (3, 4)], ids=str)
def test_task_5_gradient_ignored(leading, dtype):
    """About half of the targets are -100."""
    gradients(*logits_and_targets(2, dtype, leading, ignored=0.5), seed=2)


def test_task_5_gradient_three_tokens():
    """Probabilities of 0.5, 0.25 and 0.25, as in the chapter; the target is token 1."""
    gradients(mx.log(mx.array([[0.5, 0.25, 0.25]])), mx.array([1]), seed=0)


@by_dtype
@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_task_5_gradient_far_from_zero(shift, dtype):
    """All logits near 10,000 or -10,000."""
    logits, targets = logits_and_targets(3, mx.float32, ignored=0.3)
    gradients((logits * 100 + shift).astype(dtype), targets, seed=3)


@by_dtype
def test_task_5_gradient_large_vocabulary(dtype):
    """70,000 equally likely tokens: the sum of the exponentials is beyond float16, which ends at 65,504."""
    gradients(mx.zeros((2, 70_000), dtype), mx.array([3, 69_999]), seed=0)


@by_dtype
def test_task_5_gradient_almost_sure(dtype):
    """The target has almost all of the probability: 1 minus it has few digits, unless both are float32."""
    gradients(mx.array([[9.5, 0.0, 1.0], [0.0, 8.0, 0.5]]).astype(dtype), mx.array([0, 1]), seed=0)


def test_task_5_gradient_hidden_tokens():
    """A logit of -inf: the token is impossible, and its gradient is 0."""
    gradients(mx.array([[0.5, -mx.inf, 1.0], [-mx.inf, -mx.inf, 2.0]]), mx.array([0, 2]), seed=0)


@pytest.mark.parametrize("ignore_index", [0, 6, -1, -100])
def test_task_5_gradient_other_ignore_index(ignore_index):
    logits, targets = logits_and_targets(5, ignored=0.3)
    targets = mx.where(targets == IGNORE, ignore_index, targets)
    gradients(logits, targets, ignore_index, seed=5)


@by_dtype
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_task_5_gradient_nothing_counts(leading, dtype):
    gradients(logits_and_targets(6, dtype, leading)[0], mx.full(leading, IGNORE), seed=6)


def test_task_5_gradient_equal_sizes():
    """As many rows as tokens and as many logits: axes can be confused."""
    gradients(*logits_and_targets(7, leading=(4, 4), size=4, ignored=0.3), seed=7)


def test_task_5_gradient_ignores_nan():
    """The logits of ignored positions are NaN or infinite: their gradient is 0."""
    logits, targets = logits_and_targets(8, leading=(4,))
    logits[1], logits[3], targets[1], targets[3] = mx.nan, mx.inf, IGNORE, IGNORE
    case = "float32, logits 4 x 7, of which two rows are NaN and inf, targets 4, of which these two are ignored, seed 8"
    with noted(case):
        gradient = loss.cross_entropy_vjp(logits, targets)
        mx.eval(gradient)
    clean = mx.where(mx.isfinite(logits), logits, 0.0)
    compare(gradient, gradient64(to_float64(clean), to_float64(targets)), mx.float32, 1e-6, case, 28)


@by_dtype
def test_task_5_gradient_mlx(dtype):
    """mx.grad of MLX's loss, over the positions that count."""
    logits, targets = logits_and_targets(9, dtype, ignored=0.4)

    def mean(logits):
        losses = nn.losses.cross_entropy(logits, mx.maximum(targets, 0), reduction="none")
        return mx.sum(mx.where(targets == IGNORE, 0.0, losses)) / mx.sum(targets != IGNORE)

    gradients(logits, targets, seed=9, expected=to_float64(mx.grad(mean)(logits.astype(mx.float32))))


@by_dtype
def test_task_5_gradient_pytorch(pytorch, dtype):
    logits, targets = logits_and_targets(10, dtype, ignored=0.4)

    def reference(torch, logits, targets):
        logits.requires_grad_()
        flat = logits.flatten(0, -2)
        torch.nn.functional.cross_entropy(flat, targets.flatten().long(), ignore_index=-100).backward()
        return logits.grad

    gradients(logits, targets, seed=10, expected=pytorch(reference, logits, targets))


def test_task_5_gradient_sweep():
    for n in sweep(N=20, L=300, V=4200):
        leading = n.turn((n.N, n.L), (n.L,), (n.L, 1, n.N))
        logits, targets = logits_and_targets(n.seed, n.dtype, leading, n.V, 1.0, n.turn(0.0, 0.5, 0.9))
        gradients((logits * n.spread + n.shift).astype(n.dtype), targets, seed=n)


@property_test
@given(size=st.integers(2, 9), seed=st.integers(0, 99))
def test_task_5_gradient_sums_to_zero(size, seed):
    """Adding a number to all logits changes nothing, so each position's gradient sums to 0."""
    logits, targets = logits_and_targets(seed, size=size, ignored=0.3)
    case = f"float32, logits 3 x 4 x {size}, seed {seed}: the sum over V"
    with noted(case):
        total = mx.sum(loss.cross_entropy_vjp(logits, targets), axis=-1)
    compare(total, np.zeros((3, 4)), mx.float32, 1e-6, case, logits.size)


@property_test
@given(seed=st.integers(0, 99))
def test_task_5_gradient_is_the_slope(seed):
    """A small step along a direction changes the float64 loss by the gradient's share of it."""
    logits, targets = logits_and_targets(seed, ignored=0.3)
    case = f"float32, logits 3 x 4 x 7, seed {seed}: against the difference of two losses"
    with noted(case):
        gradient = to_float64(loss.cross_entropy_vjp(logits, targets))
    wide, labels = to_float64(logits), to_float64(targets)
    step = np.random.default_rng(seed).standard_normal(wide.shape) * 1e-5
    rise = (cross_entropy64(wide + step, labels) - cross_entropy64(wide - step, labels)) / 2
    along = mx.array(np.float32((gradient * step).sum() * 1e5))
    compare(along, np.asarray(rise * 1e5), mx.float32, 1e-4, case, logits.size)


@pytest.mark.parametrize("shape", [(3,), (3, 4, 1), (4, 3), (2, 4)], ids=str)
def test_task_5_gradient_refuses_other_shapes(shape):
    with raises_value_error(f"logits 3 x 4 x 7, targets {shape}", str(shape), "(3, 4)"):
        mx.eval(loss.cross_entropy_vjp(mx.zeros((3, 4, 7)), mx.zeros(shape, mx.int32)))
