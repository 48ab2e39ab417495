"""Task 5.4.5, fused cross-entropy in C++, checked against its formulas in float64, the VJP of day 2, and MLX's.

The checked build reports invalid memory accesses and races.
"""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from tests.week5.formulas_day2 import IGNORE
from tests.week5.formulas_day4 import row_gradients64, row_losses64
from tests.week5.logits import far, logits_and_targets

from tiny_llm.training import kernels
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.kernels import fast, watched
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def losses(logits, targets, scale=1.0, ignored=IGNORE):
    return kernels.cross_entropy_rows(logits, targets, scale, ignored)[0]


def gradients(logits, targets, scale=1.0, ignored=IGNORE):
    return kernels.cross_entropy_rows(logits, targets, scale, ignored)[1]


def rows(*given, seed, expected=(None, None)):
    """Compare both results with their formulas, or with others."""
    agrees(losses, row_losses64, *given, seed=seed, expected=expected[0])
    agrees(gradients, row_gradients64, *given, seed=seed, expected=expected[1])


def test_task_5_fused_three_tokens():
    """Probabilities of 0.5, 0.25 and 0.25, as on day 2; the target is token 1."""
    rows(mx.log(mx.array([[0.5, 0.25, 0.25]])), mx.array([1]), seed=0)


@pytest.mark.parametrize("size", [1, 2, 7, 16, 33, 130])
def test_task_5_fused_vocabulary(size):
    """Vocabularies that fill whole registers, and others."""
    rows(*logits_and_targets(1, leading=(5,), size=size), seed=1)


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_task_5_fused_rows(count):
    rows(*logits_and_targets(2, leading=(count,)), 0.25, seed=2)


@pytest.mark.parametrize("scale", [-0.7, 0.0, 0.01, 3.0])
def test_task_5_fused_scale(scale):
    """The gradient of each loss, such as 1 / number of counted targets, may be any number."""
    rows(*logits_and_targets(3, leading=(4,)), scale, seed=3)


@pytest.mark.parametrize("ignored", [0, 6, -1, -100])
def test_task_5_fused_ignored(ignored):
    """About half of the targets do not count: their losses and gradients are zeros."""
    logits, targets = logits_and_targets(4, leading=(9,), ignored=0.5)
    rows(logits, mx.where(targets == IGNORE, ignored, targets), 0.5, ignored, seed=4)


def test_task_5_fused_nothing_counts():
    rows(logits_and_targets(5, leading=(3,))[0], mx.full(3, IGNORE), seed=5)


def test_task_5_fused_ignores_nan():
    """The logits of rows that do not count are NaN or infinite."""
    logits, targets = logits_and_targets(6, leading=(4,))
    targets[1], targets[3] = IGNORE, IGNORE
    clean = to_float64(logits), np.array(targets)
    logits[1], logits[3] = mx.nan, mx.inf
    rows(logits, targets, seed=6, expected=(row_losses64(*clean), row_gradients64(*clean)))


@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_task_5_fused_far_from_zero(shift):
    """All logits near 10,000 or -10,000, and far apart: subtract the largest one first."""
    logits, targets = far(mx.float32, shift)
    rows(logits.reshape(-1, logits.shape[-1]), targets.flatten(), seed=7)


def test_task_5_fused_equal_sizes():
    """As many rows as tokens: axes can be confused."""
    rows(*logits_and_targets(8, leading=(6,), size=6, ignored=0.3), 0.5, seed=8)


def test_task_5_fused_mlx():
    """mx.grad of MLX's loss, over the rows that count."""
    logits, targets = logits_and_targets(9, leading=(12,), size=40, ignored=0.3)

    def each_loss(logits):
        each = nn.losses.cross_entropy(logits, mx.maximum(targets, 0), reduction="none")
        return mx.where(targets == IGNORE, 0.0, each)

    slopes = mx.grad(lambda logits: mx.sum(each_loss(logits)) * 0.125)(logits)
    rows(logits, targets, 0.125, seed=9, expected=(to_float64(each_loss(logits)), to_float64(slopes)))


def test_task_5_fused_pytorch(pytorch):
    logits, targets = logits_and_targets(10, leading=(12,), size=40, ignored=0.3)

    def reference(torch, logits, targets):
        logits.requires_grad_()
        losses = torch.nn.functional.cross_entropy(logits, targets.long(), ignore_index=-100, reduction="none")
        (losses.sum() * 0.125).backward()
        return torch.cat([losses.detach()[:, None], logits.grad], dim=1)

    both = pytorch(reference, logits, targets)  # a row's loss, then its gradients
    rows(logits, targets, 0.125, seed=10, expected=(both[:, 0], both[:, 1:]))


def test_task_5_fused_threads():
    """The rows are split into chunks for several cores."""
    chunks = watched(kernels.cross_entropy_rows, *logits_and_targets(11, leading=(64,), size=50)).chunks
    if chunks < 2:
        lines = (
            "expected  pool().run with two chunks or more that read logits and write results",
            f"got       {chunks}",
        )
        raise CheckFailed(Finding(Kind.COSTS, "one core computes all rows", lines, "float32, logits 64 x 50", 64))


def test_task_5_fused_sweep():
    for n in sweep(N=300, V=4200):
        logits, targets = logits_and_targets(n.seed, leading=(n.N,), size=n.V, ignored=n.turn(0.0, 0.5, 0.9))
        scale = n.turn(1.0, -0.3, 1 / 64)
        given = logits * n.spread + n.shift, targets, scale
        agrees(fast(losses), row_losses64, *given, seed=n)
        agrees(fast(gradients), row_gradients64, *given, seed=n)
