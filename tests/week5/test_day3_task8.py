"""Task 5.3.8, the learning-rate schedule: the formula, mlx.optimizers and PyTorch."""

import math

import mlx.core as mx
import mlx.optimizers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day3 import rate64

from tiny_llm.optimizers import schedule
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def check_rate(step, peak, warmup, total, floor=0.0, *, expected=None, closeness=1e-6, swept=False):
    """Compare one rate with the formula, or with another oracle."""
    case = f"step {step}, peak {peak:g}, warmup {warmup}, total {total}, floor {floor:g}"
    with noted(case):
        rate = schedule.warmup_cosine(step, peak, warmup, total, floor)
    if not isinstance(rate, int | float):
        fail(Kind.TYPE, f"returned {type_words(rate)}, expected a float", case, size=step)
    wanted = rate64(step, peak, warmup, total, floor) if expected is None else expected
    if not math.isclose(rate, wanted, rel_tol=closeness, abs_tol=closeness * peak):
        lines = (f"expected  {wanted:.6g}", f"got       {rate:.6g}")
        fail(Kind.VALUES, "another learning rate", case, *lines, size=step, swept=swept)


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("step", [0, 1, 5, 9, 10, 11, 35, 60, 85, 109, 110, 111, 500])
def test_task_8_schedule_formula(step, floor):
    """10 steps of warm-up and 110 in all, as in the first hint: both ends of each part, and beyond."""
    check_rate(step, 1.0, 10, 110, floor)


@pytest.mark.parametrize(("step", "expected"), [(1, 0.1), (10, 1.0), (60, 0.55), (110, 0.1), (1000, 0.1)])
def test_task_8_schedule_landmarks(step, expected):
    """A tenth at the first of ten steps, the peak, the middle of peak and floor, the floor."""
    check_rate(step, 1.0, 10, 110, 0.1, expected=expected)


@pytest.mark.parametrize("step", [0, 1, 50, 100, 200])
def test_task_8_schedule_without_warmup(step):
    check_rate(step, 0.003, 0, 100, 0.001)


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_task_8_schedule_shortest(step):
    """One step of warm-up, one more to the floor."""
    check_rate(step, 0.5, 1, 2, 0.25)


@pytest.mark.parametrize("step", [3, 10, 50, 99, 150])
def test_task_8_schedule_constant(step):
    """A floor as high as the peak: constant after the warm-up."""
    check_rate(step, 0.2, 10, 100, 0.2)


def test_task_8_schedule_mlx():
    """mlx.optimizers: a linear schedule joined with a cosine decay."""
    warm = mlx.optimizers.linear_schedule(0.0, 0.01, 10)
    fall = mlx.optimizers.cosine_decay(0.01, 90, 0.001)
    joined = mlx.optimizers.join_schedules([warm, fall], [10])
    for step in range(0, 120, 3):
        expected = joined(mx.array(step)).item()
        check_rate(step, 0.01, 10, 100, 0.001, expected=expected, closeness=1e-4)


def test_task_8_schedule_pytorch(pytorch):
    """PyTorch's LinearLR and CosineAnnealingLR in sequence."""

    def rates(torch, peak, warmup, total, floor, steps):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], peak)
        schedulers = torch.optim.lr_scheduler
        warm = schedulers.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1)
        fall = schedulers.CosineAnnealingLR(optimizer, total - warmup, floor)
        both = schedulers.SequentialLR(optimizer, [warm, fall], [warmup - 1])
        found = []
        for _ in range(steps):  # the first rate is that of step 1
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            both.step()
        return torch.tensor(found)

    expected = pytorch(rates, 0.01, 10, 100, 0.001, 100)
    for step in (1, 2, 9, 10, 11, 50, 99, 100):
        check_rate(step, 0.01, 10, 100, 0.001, expected=float(expected[step - 1]), closeness=1e-4)


def test_task_8_schedule_sweep():
    for n in sizes(S=4200, W=1100, T=4200):
        warmup = n.turn(n.W, 0)
        check_rate(n.S, n.turn(1.0, 3e-4), warmup, warmup + n.T, n.turn(0.0, 1e-5), swept=True)


@property_test
@given(warmup=st.integers(0, 9), more=st.integers(1, 30), step=st.integers(0, 60))
def test_task_8_schedule_rises_and_falls(warmup, more, step):
    """The rate rises up to `warmup`, never after it, and stays between its ends."""
    case = f"step {step}, peak 1, warmup {warmup}, total {warmup + more}, floor 0.1"
    with noted(case):
        now, then = (schedule.warmup_cosine(s, 1.0, warmup, warmup + more, 0.1) for s in (step, step + 1))
    if not (now < then if step < warmup else now >= then):
        fail(Kind.VALUES, f"from step {step} to {step + 1} the rate goes from {now:.4g} to {then:.4g}", case)
    if not -1e-9 <= now <= 1 + 1e-9 or (step >= warmup and now < 0.1 - 1e-9):
        fail(Kind.VALUES, f"the rate is {now:.4g}, outside of its range", case)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ((-1, 1.0, 10, 100), "-1"),
        ((-3, 1.0, 10, 100), "-3"),
        ((5, 1.0, -2, 100), "-2"),
        ((5, 1.0, 100, 100), "100"),
        ((5, 1.0, 120, 100), "120"),
        ((5, 1.0, 10, 100, 1.5), "1.5"),
        ((5, 1.0, 10, 100, -0.5), "-0.5"),
    ],
    ids=str,
)
def test_task_8_schedule_refuses_other_numbers(arguments, number):
    with raises_value_error(f"warmup_cosine{arguments}", number):
        schedule.warmup_cosine(*arguments)
