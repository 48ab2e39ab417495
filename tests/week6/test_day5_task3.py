"""Task 6.5.3, capacity planning: fleets whose outcomes are known."""

import math

import pytest
from tests.week6.planning import Fleets, noisy, step_at

from tiny_llm.fleet import capacity
from tiny_llm.fleet.jobs import Outcome
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different

GOAL = capacity.Goal(0.5, 0.0625)


def needed(fleets, most, case, seeds=(0,), share=0.95):
    with noted(case):
        return capacity.replicas_needed(fleets, GOAL, most, seeds=list(seeds), share=share)


def fleets(shares, sizes=(20,)):
    return Fleets(Outcome, GOAL, shares, sizes)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 16, 100, 1000])
def test_task_3_capacity_smallest(most):
    for enough in sorted({1, 2, 3, most // 2 + 1, most - 1, most, most + 1, 2 * most} - {0}):
        case = f"{enough} replicas are sufficient, at most {most} may be tried"
        found = needed(fleets(step_at(enough)), most, case)
        fail_if_different("the number is wrong", enough if enough <= most else None, found, case)


def test_task_3_capacity_few_runs():
    """No run is repeated, no number above `most` is tried, and the numbers are few."""
    for enough, most in ((1, 1000), (600, 1000), (999, 1000), (2000, 1000), (37, 64), (64, 64), (5, 5)):
        case = f"{enough} replicas are sufficient, at most {most} may be tried, seeds 3 and 8"
        found = fleets(step_at(enough))
        needed(found, most, case, (3, 8))
        if len(set(found.calls)) < len(found.calls):
            again = next(call for n, call in enumerate(found.calls) if call in found.calls[:n])
            fail(Kind.VALUES, "a run is repeated", case, f"got       (replicas, seed) {again} twice")
        if max(found.tried) > most or min(found.tried) < 1:
            fail(Kind.VALUES, "a number out of range was tried", case, f"got       {found.tried}")
        if len(found.tried) > 2 + 2 * math.log2(most):
            fail(Kind.VALUES, "too many numbers were tried", case, f"got       {len(found.tried)}: {found.tried[:12]}")


def test_task_3_capacity_seeds():
    """Every number of replicas gets the same seeds."""
    found = fleets(step_at(11))
    case = "11 replicas are sufficient; seeds 5, 2 and 9"
    needed(found, 64, case, (5, 2, 9))
    for replicas in found.tried:
        seeds = sorted(seed for count, seed in found.calls if count == replicas)
        fail_if_different(f"the seeds of {replicas} replicas are wrong", [2, 5, 9], seeds, case)


@pytest.mark.parametrize(
    ("shares", "sizes", "share", "enough"),
    [
        ([1.0, 0.9], (20, 20), 0.95, True),  # exactly the share
        ([1.0, 0.85], (20, 20), 0.95, False),
        ([0.9, 1.0], (20, 20), 0.95, True),
        ([1.0, 0.5], (80, 4), 0.95, True),  # a mean of the two shares would be 0.75
        ([0.5, 1.0], (80, 4), 0.75, False),
        ([1.0, 1.0], (3, 9), 1.0, True),
        ([1.0, 0.8], (20, 5), 1.0, False),
        ([0.0, 0.0], (6, 4), 0.95, False),
        ([0.5, 1.0], (2, 3), 0.9, False),  # 4 requests, and 4.5 are needed
    ],
)
def test_task_3_capacity_share(shares, sizes, share, enough):
    """All requests of all seeds count together."""
    met = " and ".join(f"{round(a * b)} of {b}" for a, b in zip(shares, sizes, strict=True))
    case = f"one replica at most, two seeds; {met} requests meet the goal, a share of {share} is needed"
    found = needed(fleets(lambda replicas, seed: shares[seed], sizes), 1, case, (0, 1), share)
    fail_if_different("the number is wrong", 1 if enough else None, found, case)


def test_task_3_capacity_sweep():
    """Noise: the number is sufficient, and one replica fewer is not."""
    for seed in range(80):
        most, seeds = 1 + seed % 61, range(1 + seed % 3)
        case = f"noise {seed}, at most {most} replicas, {len(seeds)} seeds"
        found = fleets(noisy(seed), (7, 20, 13))
        number = needed(found, most, case, seeds, 0.75)

        def sufficient(replicas, found=found, seeds=seeds):
            met = [GOAL.met_by(outcome) for one in seeds for outcome in found(replicas, one)]
            return sum(met) >= 0.75 * len(met)

        if number is None:
            if sufficient(most):
                fail(Kind.VALUES, "there is no number, but `most` replicas are sufficient", case, swept=True)
        elif not 1 <= number <= most or not sufficient(number):
            fail(Kind.VALUES, "the number is not sufficient", case, f"got       {number}", swept=True)
        elif number > 1 and sufficient(number - 1):
            fail(Kind.VALUES, "one replica fewer is sufficient as well", case, f"got       {number}", swept=True)
