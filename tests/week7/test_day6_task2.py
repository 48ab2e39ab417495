"""Task 7.6.2, the scores of an agent, against an enumeration of all sets of runs."""

import math

import pytest
from tests.week7.scoring import (
    EVEN,
    ONCE,
    SWAPPED,
    UNEQUAL,
    interval,
    mean,
    random_runs,
    runs,
    sets_of_runs,
    shares,
    sign_test,
    usage,
)

from tiny_llm.outcomes import scores
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error


def made(rows):
    return scores.Scores([scores.Run(*row) for row in rows])


def close(what, expected, actual, case):
    """Compare numbers, up to rounding."""
    wanted, got = tuple(map(float, expected)), tuple(map(float, actual))
    if len(wanted) != len(got) or not all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(wanted, got, strict=True)
    ):
        wanted, got = (tuple(float(f"{each:.9g}") for each in numbers) for numbers in (wanted, got))
        fail(Kind.VALUES, f"{what} is wrong", case, f"expected  {wanted}", f"got       {got}")


def said(rows):
    words = [f"{name} {sum(r.solved for r in rows if r.case == name)}/{sum(r.case == name for r in rows)}"
             for name in shares(rows)]  # fmt: skip
    return "solved: " + ", ".join(words[:6]) + (f" and {len(words) - 6} more cases" if len(words) > 6 else "")


TABLES = {"once": ONCE, "unequal": UNEQUAL, "even": EVEN, "one case": runs("a+ a- a+"), "one run": runs("a-")}


@pytest.mark.parametrize("name", TABLES)
def test_task_2_scores_shares(name):
    case = said(TABLES[name])
    with noted(case):
        found = made(TABLES[name]).shares()
    expected = {name: float(share) for name, share in shares(TABLES[name]).items()}
    fail_if_different("the shares are wrong", expected, found, case)
    fail_if_different("the order of the cases is wrong", list(expected), list(found), case)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_task_2_scores_success(name, confidence):
    case = f"{said(TABLES[name])}; confidence {confidence}"
    with noted(case):
        found = made(TABLES[name]).success(confidence)
    each = list(map(float, shares(TABLES[name]).values()))
    close("the mean", [mean(list(shares(TABLES[name]).values()))], [found.mean], case)
    close("the interval", interval(each, confidence), (found.low, found.high), case)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("every", [False, True], ids=["pass_at", "pass_all"])
def test_task_2_scores_k(k, every):
    for rows in (EVEN, SWAPPED, runs("a+ a+ a+ a+ a+ b- b- b- b-")):
        case = f"{'pass_all' if every else 'pass_at'}({k}), {said(rows)}"
        with noted(case):
            table = made(rows)
            found = table.pass_all(k) if every else table.pass_at(k)
        close("the estimate", [sets_of_runs(rows, k, every)], [found], case)


@pytest.mark.parametrize("k", [0, -1, 3, 7])
def test_task_2_scores_refuses_k(k):
    rows = runs("cat+ dog+ cat+ cat- dog- cat-")
    for method in ("pass_at", "pass_all"):
        with raises_value_error(f"{method}({k}), four runs of cat and two of dog", *(["dog"] if k == 3 else [])):
            getattr(made(rows), method)(k)


@pytest.mark.parametrize("name", TABLES)
def test_task_2_scores_usage(name):
    for price in (0.4, 0.0, 15.0):
        case = f"{said(TABLES[name])}; {price} dollars per million tokens"
        with noted(case):
            found = made(TABLES[name]).usage(price)
        close("steps, tokens, cost or cost_per_solved", usage(TABLES[name], price), found, case)


def test_task_2_scores_against():
    """Cases are paired by name, however the runs are ordered."""
    for first, second in ((EVEN, SWAPPED), (SWAPPED, EVEN), (EVEN, EVEN), (ONCE, ONCE[::-1])):
        case = f"{said(first)} against {said(second)}"
        with noted(case):
            found = made(first).against(made(second))
        mine, theirs = shares(first), shares(second)
        differences = [float(mine[name]) - float(theirs[name]) for name in mine]
        close("the difference", [mean(differences)], [found.difference], case)
        close("the interval", interval(differences, 0.95), (found.low, found.high), case)
        close("the p-value", [sign_test(differences)], [found.p_value], case)


def test_task_2_scores_refuses_others():
    case = "cases cat, dog, eel against cat, eel, fox"
    with raises_value_error(case, "dog", "fox"):
        made(runs("cat+ dog+ eel-")).against(made(runs("cat+ eel+ fox-")))


def test_task_2_scores_refuses_nothing():
    for case, nothing in (("a list without runs", []), ("an iterator without runs", iter([]))):
        with raises_value_error(case):
            scores.Scores(nothing)


def test_task_2_scores_any_iterable():
    case = "runs from a generator"
    with noted(case):
        found = scores.Scores(scores.Run(*row) for row in EVEN)
        result = found.success().mean, found.usage(1.0).steps
    close("mean or steps", (mean(list(shares(EVEN).values())), usage(EVEN, 1.0)[0]), result, case)


def test_task_2_scores_sweep():
    """Tables of many sizes, each with all scores."""
    for seed, (cases, times) in enumerate([(1, 1), (2, 2), (30, 1), (7, 5), (3, 8), (60, 2), (200, 1)]):
        rows = random_runs(seed, cases, times)
        case = said(rows)
        with noted(case):
            table = made(rows)
            found = table.success()
            at, every = table.pass_at(times), table.pass_all(times)
        each = list(shares(rows).values())
        close("success", (mean(each), *interval(list(map(float, each)), 0.95)), found, case)
        close("pass_at or pass_all", [sets_of_runs(rows, times, e) for e in (False, True)], (at, every), case)
        close("usage", usage(rows, 3.0), table.usage(3.0), case)
