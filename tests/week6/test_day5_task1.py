"""Task 6.5.1, the cost of a step: counts of chunks, and fits held to the conditions of a minimum."""

import numpy as np
import pytest
from tests.week6.step_costs import BENT, EMPTY_CACHE, MISLEADING, MODELS, SCENES, UNEVEN, chunks_of, recorded, slopes

from tiny_llm.fleet import cost
from tiny_llm.serving.request import Chunk, Request
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error

ROUNDING = 1e-9


def numbers(model):
    return model.base, model.prefilled, model.decoding, model.cached


def shown(coefficients):
    """Return coefficients in few digits, because right ways of fitting differ in the last ones."""
    return f"({', '.join(f'{each:.6g}' for each in coefficients)})"


def fitted(steps, case):
    with noted(case):
        return cost.StepCost.fit([(cost.Work(*work), seconds) for work, seconds in steps])


def check_best(steps, case, swept=False):
    """No model with coefficients of at least 0 has a smaller error."""
    found = numbers(fitted(steps, case))
    if min(found) < 0:
        fail(Kind.VALUES, "a coefficient is negative", case, f"got       {shown(found)}", swept=swept)
    for name, each, slope in zip(("base", "prefilled", "decoding", "cached"), found, slopes(steps, found), strict=True):
        better = "smaller" if slope > 0 else "larger"
        if abs(slope) > 1e-7 and (slope < 0 or each > 0):
            fail(
                Kind.VALUES, f"a {better} `{name}` has a smaller error", case, f"got       {shown(found)}", swept=swept
            )


@pytest.mark.parametrize("name", SCENES)
def test_task_1_cost_work(name):
    rows, expected = SCENES[name]
    for kind, case in ((list, name), (iter, f"{name}; the chunks are an iterator")):
        with noted(case):
            found = cost.Work(*cost.StepCost.work(kind(chunks_of(rows, Request, Chunk))))
        fail_if_different("the work is wrong", cost.Work(*expected), found, case)


def test_task_1_cost_seconds():
    case = "base 0.5, prefilled 0.25, decoding 2, cached 0.125; 3 prefilled, 5 decoding, 24 cached"
    with noted(case):
        found = cost.StepCost(0.5, 0.25, 2.0, 0.125).seconds(cost.Work(3, 5, 24))
    fail_if_different("the seconds are wrong", 14.25, found, case)


@pytest.mark.parametrize("name", MODELS)
def test_task_1_cost_recovers(name):
    """Durations without noise have one model, and it is found."""
    steps = recorded(1, 60, MODELS[name])
    found = numbers(fitted(steps, name))
    far = [abs(a - b) > ROUNDING * max(b, max(MODELS[name]) * 1e-4) for a, b in zip(found, MODELS[name], strict=True)]
    if any(far):
        fail(
            Kind.VALUES,
            "the coefficients are wrong",
            name,
            f"expected  {shown(MODELS[name])}",
            f"got       {shown(found)}",
        )


@pytest.mark.parametrize(
    ("steps", "case"),
    [
        (BENT, "five steps whose best unbounded model has a negative coefficient"),
        (MISLEADING, "four steps; the best model has the term whose unbounded coefficient is the most negative"),
        (UNEVEN, "steps of 1 ms and of 140 ms"),
        (EMPTY_CACHE, "three steps of prompts; none decodes, none reads the cache"),
        ([((7, 2, 30), 0.25)], "a single step"),
        ([((7, 2, 30), 0.25)] * 4, "the same step four times"),
        (recorded(3, 80, MODELS["a small model on a CPU"], 0.3), "80 steps with noise of 30 %"),
    ],
)
def test_task_1_cost_best(steps, case):
    check_best(steps, case)


def test_task_1_cost_refuses():
    with raises_value_error("no steps"):
        cost.StepCost.fit([])
    for seconds in (0.0, -0.25):
        with raises_value_error(f"steps of 0.5 and {seconds} seconds", str(seconds)):
            cost.StepCost.fit([(cost.Work(3, 1, 4), 0.5), (cost.Work(3, 2, 4), seconds)])


def test_task_1_cost_sweep():
    """Any number of steps, noise and units, and durations that have nothing to do with the work."""
    draw = np.random.default_rng(0)
    # Many steps first: of fewer than four, programs with one and the same mistake may fit different models.
    for count in (64, 1, 2, 3, 4, 5, 17, 130, 1001):
        for noise, unit in ((0.0, 1.0), (0.2, 1e-3), (0.9, 1e3)):
            steps = recorded(count, count, MODELS["a large model on a GPU"], noise)
            check_best([(w, s * unit) for w, s in steps], f"{count} steps, noise {noise}, unit {unit} s", swept=True)
        steps = [(tuple(draw.integers(0, 99, 3)), float(draw.uniform(0.01, 2))) for _ in range(count)]
        check_best(steps, f"{count} steps of random work and duration", swept=True)
