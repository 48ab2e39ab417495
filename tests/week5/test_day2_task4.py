"""Task 5.2.4, cross-entropy, checked against its formula in float64, MLX's loss and PyTorch's."""

import math

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
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def losses(logits, targets, *more, **options):
    agrees(loss.cross_entropy, cross_entropy64, logits, targets, *more, dtype=mx.float32, **options)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (3, 4), (2, 3, 4)], ids=str)
def test_task_4_cross_entropy_formula(leading, dtype):
    losses(*logits_and_targets(1, dtype, leading), seed=1)


@by_dtype
@pytest.mark.parametrize("leading", [(5,), (3, 4)], ids=str)
def test_task_4_cross_entropy_ignored(leading, dtype):
    """About half of the targets are -100."""
    losses(*logits_and_targets(2, dtype, leading, ignored=0.5), seed=2)


def test_task_4_cross_entropy_four_tokens():
    """Four equally likely tokens: ln 4 = 1.3863."""
    losses(mx.zeros((2, 4)), mx.array([0, 3]), seed=0)


def test_task_4_cross_entropy_a_sure_model():
    """The target's logit is 20 above the others: a loss near 0, and 20 if another token is the target."""
    logits = mx.array([[20.0, 0.0, 0.0], [20.0, 0.0, 0.0]])
    for targets in ([0, 0], [1, 2], [0, 1]):
        losses(logits, mx.array(targets), seed=0)


@by_dtype
@pytest.mark.parametrize("shift", [-1e4, 1e4])
def test_task_4_cross_entropy_far_from_zero(shift, dtype):
    """All logits near 10,000 or -10,000: exp of them is infinite or 0."""
    logits, targets = logits_and_targets(3, mx.float32, ignored=0.3)
    losses((logits * 100 + shift).astype(dtype), targets, seed=3)


@by_dtype
def test_task_4_cross_entropy_far_apart(dtype):
    """Logits of both signs up to 10,000: some targets have a probability of 0 in float32."""
    logits, targets = logits_and_targets(4, mx.float32, spread=4000.0)
    losses(mx.clip(logits, -1e4, 1e4).astype(dtype), targets, seed=4)


def test_task_4_cross_entropy_hidden_tokens():
    """A logit of -inf: the token is impossible, and is not the target."""
    losses(mx.array([[0.5, -mx.inf, 1.0], [-mx.inf, -mx.inf, 2.0]]), mx.array([0, 2]), seed=0)


@pytest.mark.parametrize("ignore_index", [0, 6, -1, -100, 999])
def test_task_4_cross_entropy_other_ignore_index(ignore_index):
    """Also one that is a token of the vocabulary, as padding may be."""
    logits, targets = logits_and_targets(5, ignored=0.3)
    targets = mx.where(targets == IGNORE, ignore_index, targets)
    losses(logits, targets, ignore_index, seed=5)


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_task_4_cross_entropy_nothing_counts(leading):
    losses(logits_and_targets(6, leading=leading)[0], mx.full(leading, IGNORE), seed=6)


def test_task_4_cross_entropy_rows_of_different_counts():
    """One row has four counted targets, the other one: each counted target has the same weight."""
    logits, _ = logits_and_targets(7, leading=(2, 4))
    losses(logits, mx.array([[1, 6, 0, 2], [-100, -100, 3, -100]]), seed=7)


@by_dtype
def test_task_4_cross_entropy_ignores_nan(dtype):
    """The logits of ignored positions are NaN or infinite: neither the loss nor its gradient shows it."""
    logits, targets = logits_and_targets(8, dtype, (4,))
    logits[1], logits[3], targets[1], targets[3] = mx.nan, mx.inf, IGNORE, IGNORE
    case = (
        f"{dtype}, logits 4 x 7, of which two rows are NaN and inf, targets 4, of which these two are ignored, seed 8"
    )
    with noted(case):
        value, gradient = mx.value_and_grad(loss.cross_entropy)(logits, targets)
        mx.eval(value, gradient)
    clean = mx.where(mx.isfinite(logits), logits, 0.0)
    expected = cross_entropy64(to_float64(clean), to_float64(targets))
    compare(value, expected, mx.float32, 1e-5, case, 28)
    slopes = gradient64(to_float64(clean), to_float64(targets))
    compare(gradient, slopes, dtype, 0.01, f"{case}, its gradient", 28)


@by_dtype
def test_task_4_cross_entropy_mlx(dtype):
    logits, targets = logits_and_targets(9, dtype)
    expected = nn.losses.cross_entropy(logits.astype(mx.float32), targets, reduction="mean")
    losses(logits, targets, seed=9, expected=to_float64(expected))


@by_dtype
@pytest.mark.parametrize("ignored", [0.0, 0.5])
def test_task_4_cross_entropy_pytorch(pytorch, ignored, dtype):
    logits, targets = logits_and_targets(10, dtype, ignored=ignored)

    def reference(torch, logits, targets):
        return torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten().long(), ignore_index=-100)

    losses(logits, targets, seed=10, expected=np.asarray(pytorch(reference, logits, targets)))


@pytest.mark.parametrize("shift", [-1e4, 0, 1e4])
def test_task_4_cross_entropy_gradient(shift):
    """mx.grad of your loss is softmax minus one-hot, over the count."""

    def slope(logits, targets):
        return mx.grad(loss.cross_entropy)(logits, targets)

    logits, targets = logits_and_targets(11, ignored=0.3)
    agrees(slope, gradient64, logits + shift, targets, seed=11)


def test_task_4_cross_entropy_compiled():
    """Under mx.compile no number may be read on the way."""
    agrees(
        mx.compile(lambda logits, targets: loss.cross_entropy(logits, targets)), cross_entropy64,
        *logits_and_targets(12, ignored=0.3), dtype=mx.float32, seed=12,
    )  # fmt: skip


def test_task_4_cross_entropy_sweep():
    for n in sweep(N=20, L=1100, V=4200):
        leading = n.turn((n.N, n.L), (n.L,), (n.L, 1, n.N))
        logits, targets = logits_and_targets(n.seed, n.dtype, leading, n.V, 1.0, n.turn(0.0, 0.5, 0.9))
        losses((logits * n.spread + n.shift).astype(n.dtype), targets, seed=n)


@property_test
@given(size=st.integers(1, 50), seed=st.integers(0, 99))
def test_task_4_cross_entropy_of_equal_logits(size, seed):
    """A model that knows nothing: ln V, whatever the targets are."""
    _, targets = logits_and_targets(seed, size=size)
    case = f"float32, logits 3 x 4 x {size}, all equal, seed {seed}"
    with noted(case):
        actual = loss.cross_entropy(mx.full((3, 4, size), 2.5), targets)
    compare(actual, np.array(math.log(size)), mx.float32, 1e-5, case, 12 * size)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_4_cross_entropy_does_not_count_padding(dtype):
    """Positions that do not count leave the loss as it is."""
    logits, targets = logits_and_targets(13, dtype, (5,))
    more = normals(14, dtype)(3, 7)
    case = f"{dtype}, logits 5 x 7 and 3 x 7 of padding, seed 13: against the loss without padding"
    with noted(case):
        alone = loss.cross_entropy(logits, targets)
        padded = loss.cross_entropy(mx.concatenate([logits, more]), mx.concatenate([targets, mx.full(3, IGNORE)]))
    compare(padded, to_float64(alone), mx.float32, 1e-5, case, 56)


@pytest.mark.parametrize("shape", [(3,), (3, 4, 1), (4, 3), (2, 4)], ids=str)
def test_task_4_cross_entropy_refuses_other_shapes(shape):
    with raises_value_error(f"logits 3 x 4 x 7, targets {shape}", str(shape), "(3, 4)"):
        mx.eval(loss.cross_entropy(mx.zeros((3, 4, 7)), mx.zeros(shape, mx.int32)))
