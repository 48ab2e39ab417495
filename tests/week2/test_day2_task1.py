"""Week 2, day 2, task 1: an honest stopwatch.

No check depends on the speed of this machine: the clock advances only when the program runs, and records what has
been evaluated at each reading.
"""

import time

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.counting import is_a
from tests.week2.stopwatch import FORMS, Stopwatch, expected_events

from tiny_llm.measure import timing
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.sizes import sizes


def timed(seconds, watch_settings=None, started=False, swept=False, **settings):
    """Time a scripted program and check that the events are those that `timed` specifies."""
    words = [f"runs of {', '.join(f'{s:g}' for s in seconds[:8])} s"]
    words += [f"{name} {value:g}" for name, value in settings.items()]
    if watch_settings and "form" in watch_settings:
        words.append(f"each gives {watch_settings['form']}")
    watch = Stopwatch(seconds, **(watch_settings or {}))
    words += ["the result takes long"] * watch.long
    words += ["each run starts more work that is not part of its result"] * watch.leaves
    words += ["work was started before"] * started
    watch.case = case = ", ".join(words)
    if started:
        watch.start_something()
    with noted(case):
        found = timing.timed(watch.program, clock=watch.clock, **settings)
    size = len(watch.events)
    if not is_a(found, timing.Timing):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a Timing", case, size=size, swept=swept)
    of = {"least_seconds": 0.5, "least_runs": 3, "warm_up": 1, **settings}
    if watch.events != (expected := expected_events(seconds, **of)):
        lines = (f"expected  {in_order(expected)}", f"got       {in_order(watch.events)}")
        headline = "the order of runs and clock readings is wrong"
        fail(Kind.VALUES, headline, case, *lines, size=size, swept=swept)
    for number, count in enumerate(watch.uncomputed):
        if count:
            what = (
                "a warm-up run is not evaluated"
                if not number and of["warm_up"]
                else "the result of a run is not evaluated"
            )
            headline = f"{what} when the clock is read: {count} array{'s' * (count != 1)}"
            line = "MLX is lazy: only mx.eval waits for a result, mx.async_eval just starts the work"
            fail(Kind.VALUES, headline, case, f"at        reading {number + 1}", line, size=size, swept=swept)
    for number, busy in enumerate(watch.busy):
        if busy and (number % 2 == 0 or not watch.leaves):
            when = "before the run" if number % 2 == 0 else "after the run"
            headline = f"MLX is still computing when the clock is read {when}"
            fail(Kind.VALUES, headline, case, f"at        reading {number + 1}", size=size, swept=swept)
    return found, of


def in_order(events):
    """Return a list of events as `run, clock, run, clock`, truncated."""
    return ", ".join(events[:14]) + (f", ... ({len(events)} in all)" if len(events) > 14 else "")


FIELDS = ("median", "fastest", "slowest", "runs")


def figures(seconds, **settings):
    """Return the four fields for a scripted program."""
    found, _ = timed(seconds, **settings)
    if type(found.runs) is not int:
        fail(Kind.TYPE, f"runs is {type_words(found.runs)}, expected an int", "")
    return mx.array([found.median, found.fastest, found.slowest, found.runs], mx.float32)


def figures64(seconds, least_seconds=0.5, least_runs=3, warm_up=1, *, r=exact):
    events = expected_events(seconds, least_seconds, least_runs, warm_up)
    taken = [seconds[(warm_up + i) % len(seconds)] for i in range(events.count("clock") // 2)]
    return r(np.array([np.median(taken), min(taken), max(taken), len(taken)]))


def test_task_1_timed_defaults():
    """The defaults: one warm-up run, then at least three runs and half a second."""
    agrees(figures, figures64, (4.0, 1.0, 0.5, 2.0), seed=1, dtype=mx.float32, fields=FIELDS)
    agrees(figures, figures64, (0.125,), seed=1, dtype=mx.float32, fields=FIELDS)


@pytest.mark.parametrize("warm_up", [0, 1, 2])
@pytest.mark.parametrize("least_runs", [1, 2, 5])
def test_task_1_timed_counts_runs(least_runs, warm_up):
    """Each run takes a different time; warm-up runs take longest."""
    seconds = (64.0, 32.0, 3.0, 0.5, 8.0, 1.0, 2.0)
    agrees(figures, figures64, seconds, seed=2, dtype=mx.float32, fields=FIELDS, least_runs=least_runs, warm_up=warm_up)


@pytest.mark.parametrize("least_seconds", [0.0, 0.75, 1.0, 4.0])
def test_task_1_timed_runs_for_least_seconds(least_seconds):
    """At 0.75 and 1.0 the runs reach it exactly; a warm-up of 2 s does not count."""
    seconds = (2.0, 0.25, 0.125, 0.375, 0.25)
    settings = {"least_seconds": least_seconds, "least_runs": 1}
    agrees(figures, figures64, seconds, seed=3, dtype=mx.float32, fields=FIELDS, **settings)


def test_task_1_timed_median_leaves_out_one_slow_run():
    agrees(figures, figures64, (1.0, 1.0, 100.0, 2.0, 1.5), seed=4, dtype=mx.float32, fields=FIELDS, least_runs=5)
    agrees(figures, figures64, (1.0, 1.0, 100.0, 2.0, 1.5), seed=4, dtype=mx.float32, fields=FIELDS, least_runs=4)


@pytest.mark.parametrize("form", FORMS)
def test_task_1_timed_evaluates_everything(form):
    """All arrays in a result, however nested, are evaluated when the clock is read."""
    timed((0.25, 0.5), {"form": form})


@pytest.mark.parametrize("form", ["an array", "a list of two arrays"])
def test_task_1_timed_waits_for_the_end(form):
    """Long work has finished, not only started."""
    timed((0.25, 0.5), {"form": form, "long": True}, least_runs=2)


@pytest.mark.parametrize("warm_up", [0, 1])
def test_task_1_timed_waits_for_earlier_work(warm_up):
    timed((0.25, 0.5), {"form": "a number"}, started=True, warm_up=warm_up, least_runs=2)


def test_task_1_timed_waits_for_unreturned_work():
    """Work that a run started but did not return must not count in the next run."""
    timed((0.25, 0.5), {"form": "None", "leaves": True}, least_runs=3)


def test_task_1_timed_default_clock():
    """The default clock counts seconds."""
    case = "a program that sleeps for 0.02 s, no clock given, least_runs 2, least_seconds 0"
    with noted(case):
        found = timing.timed(lambda: time.sleep(0.02), least_runs=2, least_seconds=0)
    if not 0.02 <= found.fastest <= found.median <= found.slowest < 20:
        fail(Kind.VALUES, "the seconds are wrong", case, "expected  0.02 or slightly more", f"got       {found}")


@pytest.mark.parametrize("least_runs", [0, -1])
def test_task_1_timed_refuses_no_runs(least_runs):
    watch = Stopwatch((1.0,))
    with raises_value_error(f"least_runs {least_runs}", str(least_runs)):
        timing.timed(watch.program, least_runs=least_runs, clock=watch.clock)


def test_task_1_timed_sweep():
    for n in sizes(R=20, W=4, C=9):
        seconds = tuple(np.random.default_rng(n.seed).integers(8, 64, n.C) / 32)
        seconds = tuple(map(float, seconds))
        least = n.turn(0.0, 0.5, 4.0)
        settings = {"least_seconds": least, "least_runs": n.R, "warm_up": n.W}
        agrees(figures, figures64, seconds, seed=n, dtype=mx.float32, fields=FIELDS, **settings)
