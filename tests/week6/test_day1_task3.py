"""Task 6.1.3, the cost model: the fit against exact fractions, and the collectives against counted messages."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6.formulas_day1 import fit_exactly
from tests.week6.messages import ALGORITHMS, seconds_of

from tiny_llm.distributed import cost
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

ALPHA, BETA = 20e-6, 0.5e-9  # the chapter's example: 20 us, and 2 GB/s


def close(what, expected, actual, case):
    """Compare two numbers, up to rounding."""
    if isinstance(actual, mx.array):
        fail(Kind.TYPE, f"{what} is {type_words(actual)}, expected a float", case)
    if not math.isclose(expected, actual, rel_tol=1e-7, abs_tol=1e-18):
        fail(Kind.VALUES, f"{what} is wrong", case, f"expected  {expected:.8g}", f"got       {float(actual):.8g}")


def fitted(sizes_, times, case):
    with noted(case):
        found = cost.CostModel.fit(sizes_, times)
    if not isinstance(found, cost.CostModel):
        fail(Kind.TYPE, f"fit returned {type_words(found)}, expected a CostModel", case)
    latency, per_byte = fit_exactly(sizes_, times)
    close("`latency`", latency, found.latency, case)
    close("`seconds_per_byte`", per_byte, found.seconds_per_byte, case)
    return found


def noisy(seed, count, share=0.2):
    """Return sizes from 8 bytes to 64 MB, and times that differ from a line by up to this share."""
    generator = np.random.default_rng(seed)
    found = [int(n) for n in np.unique(np.rint(8 * 2 ** np.linspace(0, 23, count)))]
    return found, [float((ALPHA + BETA * n) * (1 + share * generator.uniform(-1, 1))) for n in found]


def test_task_3_cost_fit_two_messages():
    """4 bytes in 20 microseconds, and 4 MB in 2,020, as in the first hint."""
    fitted([4, 4_000_000], [20e-6, 2020e-6], "two messages: 4 bytes in 20 us, 4 MB in 2,020 us")


def test_task_3_cost_fit_on_a_line():
    """Times without any error."""
    sizes_ = [8, 1000, 30_000, 2_000_000]
    fitted(sizes_, [ALPHA + BETA * n for n in sizes_], "four messages exactly on a line")


@pytest.mark.parametrize("seed", range(4))
def test_task_3_cost_fit_noisy(seed):
    """Times with errors of up to 20%: the latency does not depend on the errors of the large messages."""
    fitted(*noisy(seed, 12), f"12 messages from 8 bytes to 64 MB, errors of up to 20%, seed {seed}")


def test_task_3_cost_fit_repeated_sizes():
    """Each measurement counts, also several of one size, in any order."""
    fitted([1_000_000, 8, 8, 8], [600e-6, 19e-6, 25e-6, 22e-6], "one message of 1 MB, then three of 8 bytes")


def test_task_3_cost_fit_negative_latency():
    """The best line may begin below zero: nothing bounds it."""
    fitted([8, 1000, 2000], [1e-6, 500e-6, 1010e-6], "three messages whose line begins below zero")


def test_task_3_cost_fit_arrays():
    """NumPy arrays, as a measurement returns them."""
    found, times = noisy(7, 9)
    fitted(np.array(found, float), np.array(times), "9 messages, as NumPy arrays of floats")


@pytest.mark.parametrize(
    ("sizes_", "times"),
    [
        ([], []),
        ([8], [1e-5]),
        ([8, 8], [1e-5, 2e-5]),
        ([8, 80], [1e-5]),
        ([8, 80], [1e-5, 0.0]),
        ([8, 80], [-1e-5, 1.0]),
    ],
    ids=["nothing", "one message", "one size", "a time missing", "no time", "a negative time"],
)
def test_task_3_cost_fit_refuses(sizes_, times):
    with raises_value_error(f"num_bytes {sizes_}, seconds {times}"):
        cost.CostModel.fit(sizes_, times)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_task_3_cost_counts_messages(name, ranks):
    """The same as following each message, of a model with 20 us and 2 GB/s."""
    for num_bytes in (0, 12, 4096, 6_000_000):
        case = f"{name}({num_bytes:,} bytes, {ranks} ranks), 20 us and 0.5 ns per byte"
        with noted(case):
            actual = getattr(cost.CostModel(ALPHA, BETA), name)(num_bytes, ranks)
        close(name, seconds_of(name, num_bytes, ranks, ALPHA, BETA), actual, case)


def test_task_3_cost_message():
    for num_bytes, expected in ((0, 20e-6), (1000, 20.5e-6), (2_000_000, 1020e-6)):
        case = f"a message of {num_bytes:,} bytes, 20 us and 0.5 ns per byte"
        with noted(case):
            actual = cost.CostModel(ALPHA, BETA).message(num_bytes)
        close("message", expected, actual, case)


@pytest.mark.parametrize("ranks", [3, 4, 5, 16])
def test_task_3_cost_crossover(ranks):
    """At the crossover, one-shot and ring take the same time."""
    case = f"{ranks} ranks, 20 us and 0.5 ns per byte"
    with noted(case):
        at = cost.CostModel(ALPHA, BETA).crossover(ranks)
    if not math.isfinite(at):
        lines = ("expected  a number of bytes: with large arrays, the ring is faster", f"got       {at}")
        fail(Kind.VALUES, "crossover is not finite", case, *lines)
    times = [seconds_of(name, at, ranks, ALPHA, BETA) for name in ("one_shot_all_reduce", "ring_all_reduce")]
    if not math.isclose(*times, rel_tol=1e-9):
        lines = [f"{name:<9} {1e6 * t:.6g} us" for name, t in zip(("one-shot:", "ring:"), times, strict=True)]
        fail(Kind.VALUES, f"crossover returned {at:.6g} bytes, where the two differ", case, *lines)


@pytest.mark.parametrize("ranks", [1, 2])
def test_task_3_cost_crossover_of_two(ranks):
    """One-shot is never slower."""
    case = f"crossover({ranks})"
    with noted(case):
        at = cost.CostModel(ALPHA, BETA).crossover(ranks)
    if at != math.inf:
        fail(Kind.VALUES, "crossover is wrong", case, "expected  infinity", f"got       {at}")


@property_test
@given(st.integers(1, 40), st.integers(2, 9), st.integers(0, 99))
def test_task_3_cost_fit_finds_the_line(latency_us, count, seed):
    """Whatever the latency, times on a line give that line."""
    found = sorted({int(n) for n in np.random.default_rng(seed).integers(1, 10**8, count + 2)})
    times = [latency_us * 1e-6 + BETA * n for n in found]
    fitted(found, times, f"{len(found)} messages on the line {latency_us} us + 0.5 ns per byte, seed {seed}")


def test_task_3_cost_sweep():
    """All algorithms, any number of ranks, messages and latencies; and fits of any number of messages."""
    for n in sizes(P=64, N=4200):
        model = cost.CostModel(n.N * 1e-7, 1e-9 * n.P)
        case = f"latency {n.N / 10:g} us, {n.P} ns per byte, {n.P} ranks, {1000 * n.N:,} bytes"
        for name in ALGORITHMS:
            with noted(f"{name}: {case}"):
                actual = getattr(model, name)(1000 * n.N, n.P)
            expected = seconds_of(name, 1000 * n.N, n.P, model.latency, model.seconds_per_byte)
            close(name, expected, actual, case)
        if n.N <= 64:
            fitted(*noisy(n.seed, n.N + 2), f"{n.N + 2} messages, errors of up to 20%, seed {n.seed}")
