"""Week 3, day 2, task 3: latencies.

Percentiles are checked against exact fractions, and against PyTorch's k-th value.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.counting import is_a

from tiny_llm.serving import latency
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def times_of(*rows):
    """Return times from rows of (arrival, scheduled, tokens...)."""
    return [latency.RequestTimes(came, begun, tuple(tokens)) for came, begun, *tokens in rows]


ROWS = {
    "three tokens": [(10.0, 12.0, 13.0, 14.0, 18.0)],
    "one token": [(10.0, 12.0, 13.0)],
    "no token": [(10.0, 12.0)],
    "two at once": [(0.5, 0.5, 2.0, 2.0, 2.0, 5.0)],
    "several": [
        (0.0, 0.0, 1.0, 2.0),
        (0.5, 2.0, 4.0, 4.5, 6.0),
        (1.0, 3.0),
        (2.0, 3.0, 9.0),
        (3.0, 3.0, 4.0, 9.0, 9.5),
    ],
    "in another order": [(7.0, 8.0, 9.0, 11.0, 12.0), (1.0, 4.0, 20.0, 21.0), (2.0, 2.0, 2.5, 9.0)],
    "none": [],
}


def exact(rows):
    """Return TTFT and TPOT of each request that has them, as fractions."""
    ttft = [Fraction(tokens[0]) - Fraction(came) for came, _, *tokens in rows if tokens]
    gaps = [[Fraction(b) - Fraction(a) for a, b in pairwise(tokens)] for _, _, *tokens in rows]
    return ttft, [sum(some) / len(some) for some in gaps if some]


def nearest_rank(numbers, percent):
    """Return the first number, in ascending order, that the given percent do not exceed."""
    return next(x for x in sorted(numbers) if 100 * sum(y <= x for y in numbers) >= percent * len(numbers))


def close_to(actual, expected):
    return isinstance(actual, float | int) and math.isclose(actual, float(expected), rel_tol=1e-9, abs_tol=1e-9)


def latency_agrees(rows, words="", swept=False):
    """Check both lists, and the summary."""
    case = words or f"requests (arrival, scheduled, tokens): {str(rows)[1:-1][:150]}"

    def told(kind, headline, *lines):
        fail(kind, headline, case, *lines, size=sum(map(len, rows)), swept=swept)

    with noted(case):
        kept = latency.Latency()
        for times in times_of(*rows):
            kept.add(times)
        lists, summary = {"ttft": list(kept.ttft), "tpot": list(kept.tpot)}, kept.summary()
        afterwards = list(kept.ttft), list(kept.tpot)
    for (name, found), wanted in zip(lists.items(), exact(rows), strict=True):
        if len(found) != len(wanted):
            told(
                Kind.VALUES,
                f"wrong number of entries in `{name}`",
                f"expected  {len(wanted)}",
                f"got       {len(found)}",
            )
        for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if not close_to(one, other):
                lines = f"expected  {float(other):.6g}", f"got       {one}"
                told(Kind.VALUES, f"wrong {name}, entry {at}", *lines)
        if not isinstance(summary, dict) or set(summary) != {"ttft", "tpot"}:
            told(Kind.TYPE, f"summary() gave {str(summary)[:60]}, expected a dict of ttft and tpot")
        due = [nearest_rank(wanted, percent) for percent in (50, 95, 99)] if wanted else None
        got = summary[name]
        if due is None:
            if got is not None:
                told(Kind.VALUES, f"the summary of `{name}`, which is empty", "expected  None", f"got       {got}")
            continue
        if not is_a(got, latency.Percentiles):
            told(Kind.TYPE, f"the summary's {name} is {type_words(got)}, expected Percentiles")
        for part, one, other in zip(("p50", "p95", "p99"), (got.p50, got.p95, got.p99), due, strict=True):
            if not close_to(one, other):
                told(Kind.VALUES, f"wrong {part} of {name}", f"expected  {float(other):.6g}", f"got       {one}")
    for (name, found), later in zip(lists.items(), afterwards, strict=True):
        if found != later:
            lines = f"before    {str(found)[:70]}", f"after     {str(later)[:70]}"
            told(Kind.VALUES, f"summary() has changed `{name}`", *lines)


def percentile_agrees(numbers, percent, expected=None, words="", swept=False):
    """Check a percentile: it is one of the numbers, so it is exact. The list must not change."""
    case = words or f"percentile {percent} of {str(numbers)[:90]}"
    given_list = type(numbers)(numbers)
    with noted(case):
        found = latency.Latency.percentile(given_list, percent)
    wanted = nearest_rank(numbers, percent) if expected is None else expected
    if given_list != numbers:
        fail(Kind.INPUT_CHANGED, "the caller's `numbers` was changed", case, "sorted() makes a list of its own")
    if found != wanted:
        lines = f"expected  {wanted}", f"got       {found}"
        fail(Kind.VALUES, "wrong percentile", case, *lines, size=len(numbers), swept=swept)


@pytest.mark.parametrize("name", ROWS)
def test_task_3_latency_lists(name):
    latency_agrees(ROWS[name])


def test_task_3_latency_summary_of_many():
    many = [(float(i), i + 0.5, i + 1.0 + (i * 7 % 40) / 8, i + 30.0 + i % 3) for i in range(40)]
    latency_agrees(many, "40 requests")
    latency_agrees([(0.0, 0.0, i / 8, i / 8 + i * 37 % 200) for i in range(200)], "200 requests")


@pytest.mark.parametrize(
    ("numbers", "percent", "expected"),
    [
        ([4.0], 1, 4.0), ([4.0], 100, 4.0), ([3.0, 1.0, 2.0], 50, 2.0), ([4.0, 3.0, 1.0, 2.0], 50, 2.0),
        ([4.0, 3.0, 1.0, 2.0], 51, 3.0), ([4.0, 3.0, 1.0, 2.0], 75, 3.0), ([5.0, 5.0, 1.0], 34, 5.0),
        ([float(i) for i in range(100)], 95, 94.0), ([float(i) for i in range(20)], 95, 18.0),
        ([float(i) for i in range(21)], 95, 19.0), ([float(i) for i in range(100)], 7, 6.0),
        ([float(i) for i in range(100)], 100, 99.0), ([-1.0, -2.0, -3.0], 99, -1.0),
    ],
)  # fmt: skip
def test_task_3_latency_percentile(numbers, percent, expected):
    percentile_agrees(numbers, percent, expected)


def test_task_3_latency_percentile_of_a_tuple():
    """Any sequence of numbers will do, also one that cannot be sorted in place."""
    percentile_agrees((4.0, 3.0, 1.0, 2.0), 51, 3.0)


@pytest.mark.parametrize("percent", [1, 25, 50, 90, 95, 99, 100])
def test_task_3_latency_pytorch(pytorch, percent):
    """PyTorch's k-th smallest number, k from integer arithmetic."""
    numbers = np.random.default_rng(percent).normal(size=37).astype(np.float32).tolist()

    def kth(torch, numbers, percent):
        k = (percent * len(numbers) + 99) // 100
        return torch.kthvalue(torch.tensor(numbers, dtype=torch.float64), k).values

    percentile_agrees(numbers, percent, float(pytorch(kth, numbers, percent)))


def test_task_3_latency_sweep():
    for n in sizes(R=300, T=70, P=100):
        generator = np.random.default_rng(n.seed)
        numbers = (generator.integers(-99, 99, n.R) / 8).tolist()
        percentile_agrees(numbers, n.P, words=f"percentile {n.P} of {n.R} numbers, seed {n.seed}", swept=True)
        rows = []
        for _ in range(min(n.R, 40)):
            came = float(generator.integers(0, 1000)) / 8
            later = np.cumsum(generator.integers(0, 9, int(generator.integers(0, n.T + 1)) + 1)) / 8
            rows.append((came, came + later[0].item(), *(came + later[0] + later[1:]).tolist()))
        latency_agrees(rows, f"{len(rows)} requests of up to {n.T} tokens, seed {n.seed}", swept=True)


@property_test
@given(
    numbers=st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=1, max_size=30), percent=st.integers(1, 100)
)
def test_task_3_latency_percentile_formula(numbers, percent):
    percentile_agrees(numbers, percent)


@property_test
@given(numbers=st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=20), percent=st.integers(1, 100))
def test_task_3_latency_percentile_of_duplicates(numbers, percent):
    """Listing every number twice changes nothing."""
    case = f"percentile {percent} of {numbers}, and of the same numbers twice over"
    with noted(case):
        one, two = (latency.Latency.percentile(some, percent) for some in (numbers, numbers + numbers))
    if one != two:
        fail(
            Kind.VALUES,
            "the percentile differs when each number is listed twice",
            case,
            f"once      {one}",
            f"twice     {two}",
            size=len(numbers),
        )
    percentile_agrees(numbers, percent)


@pytest.mark.parametrize(("numbers", "percent"), [([], 50), ([1.0], 0), ([1.0, 2.0], 101), ([1.0, 2.0], -5)])
def test_task_3_latency_refuses_invalid_percentiles(numbers, percent):
    with raises_value_error(f"percentile {percent} of {numbers}", str(percent)):
        latency.Latency.percentile(numbers, percent)


def test_task_3_latency_two_objects():
    """Two objects share nothing, and a summary is available at any time."""
    case = "two Latency objects; two requests for the first, none for the second"
    with noted(case):
        one, other = latency.Latency(), latency.Latency()
        first, second = times_of((0.0, 0.0, 1.0, 3.0), (0.0, 1.0, 5.0, 6.0))
        one.add(first)
        early = one.summary()["ttft"].p99
        one.add(second)
        found = early, one.summary()["ttft"].p99, len(other.ttft), other.summary()["tpot"]
    names = "the first's p99 of ttft", "its p99 after the second request", "len(ttft) of the second", "its tpot summary"
    for name, actual, expected in zip(names, found, (1.0, 5.0, 0, None), strict=True):
        if actual != expected:
            fail(Kind.VALUES, f"wrong: {name}", case, f"expected  {expected}", f"got       {actual}")
