"""Task 5.4.4, the scaling law, checked against another search for its exponent, and on exact laws."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day4 import predictions64

from tiny_llm.training import scaling
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

SIZES = [1e4, 3e4, 1e5, 3e5, 1e6]


def predictions(losses, sizes, at, resamples=0, seed=0):
    """Return the losses of the law and of the resampled laws at some sizes, one row for each law."""
    fit = scaling.fit_scaling_law(list(sizes), losses.tolist(), resamples, seed)
    if len(fit.resampled) != resamples:
        lines = (f"expected  {resamples}", f"got       {len(fit.resampled)}")
        fail(Kind.VALUES, "wrong number of resampled laws", f"{len(sizes)} sizes, resamples {resamples}", *lines)
    return mx.array([[law.E + law.A * n**-law.alpha for n in at] for law in (fit.law, *fit.resampled)])


def noisy(seed, sizes, E=1.4, A=20.0, alpha=0.3, spread=0.02):
    n = np.array(sizes)
    return mx.array((E + A * n**-alpha).astype(np.float32)) + normals(seed)(len(sizes), spread=spread)


@pytest.mark.parametrize("spread", [0.0, 0.003, 0.03])
def test_task_4_scaling_formula(spread):
    agrees(predictions, predictions64, noisy(1, SIZES, spread=spread), SIZES, (1e4, 1e5, 1e6, 1e7), seed=1)


@pytest.mark.parametrize(
    ("E", "A", "alpha"), [(1.69, 406.4, 0.34), (0.0, 30.0, 0.2), (2.0, 1e4, 0.9), (1.0, 3.0, 0.05)]
)
def test_task_4_scaling_exact_law(E, A, alpha):
    """Losses that lie on a law: it is found. The first one is Chinchilla's, of the number of parameters."""
    losses = [E + A * n**-alpha for n in SIZES]
    case = f"losses of {E} + {A:g} * N**-{alpha} at {len(SIZES)} sizes"
    with noted(case):
        law = scaling.fit_scaling_law(SIZES, losses, 0).law
    found, expected = mx.array([law.E, law.A / A, law.alpha]), np.array([E, 1.0, alpha])
    compare(found, expected, mx.float32, 2e-3, f"{case}: E, A / {A:g} and alpha", 5, fields=("E", "A", "alpha"))


def test_task_4_scaling_three_sizes():
    """Three unknowns and three runs: the law goes through all of them."""
    agrees(predictions, predictions64, mx.array([4.0, 3.0, 2.5]), [1e4, 1e5, 1e6], (1e4, 1e5, 1e6, 1e7), seed=2)


def test_task_4_scaling_several_runs_of_a_size():
    """Two seeds of each size, in any order."""
    twice = [1e5, 1e4, 1e6, 3e5, 1e4, 3e4, 1e5, 3e4, 1e6, 3e5]
    agrees(predictions, predictions64, noisy(3, twice), twice, (1e4, 1e6, 1e8), seed=3)


def test_task_4_scaling_no_negative_entropy():
    """Losses that no allowed law has: with E below 0, where E is 0, and with alpha above 2, where alpha is 2."""
    losses = mx.array([30 * n**-0.3 - 0.1 for n in SIZES])
    agrees(predictions, predictions64, losses, SIZES, (1e4, 1e6, 1e8), seed=4)
    steep = mx.array([1 + 3 * (n / 1e4) ** -3.5 for n in SIZES])
    agrees(predictions, predictions64, steep, SIZES, (1e4, 3e4, 1e6), seed=4)


def test_task_4_scaling_lowest_exponent():
    """Losses that fall twice as far each time: alpha would be almost 0, and is 0.01."""
    losses = mx.array([2.0 - 0.0002 * 2**i for i in range(5)])
    agrees(predictions, predictions64, losses, SIZES, (1e4, 1e6, 1e12), seed=10)


@pytest.mark.parametrize("rising", [False, True], ids=["constant", "rising"])
def test_task_4_scaling_no_negative_slope(rising):
    """Larger models that are not better: A is 0, and E is the mean."""
    losses = mx.array([2.0 + 0.1 * rising * i for i in range(5)])
    agrees(predictions, predictions64, losses, SIZES, (1e4, 1e8), seed=5)


def test_task_4_scaling_huge_models():
    """From 100 million to 100 billion parameters."""
    large = [1e8, 1e9, 1e10, 1e11]
    losses = mx.array([1.7 + 400 * n**-0.34 for n in large])
    agrees(predictions, predictions64, losses, large, (1e8, 1e12), seed=6)


@pytest.mark.parametrize("seed", [0, 7])
def test_task_4_scaling_resamples(seed):
    """The law in the first row, and four resampled ones, each by its own seed."""
    losses = noisy(7, SIZES)
    agrees(predictions, predictions64, losses, SIZES, (1e4, 1e6, 1e7), 4, seed, seed=7)


def test_task_4_scaling_resamples_without_entropy():
    """A law with E = 0: its residuals do not add up to 0, and are resampled as they are."""
    losses = mx.array([30 * n**-0.3 - 0.1 for n in SIZES])
    agrees(predictions, predictions64, losses, SIZES, (1e4, 1e6, 1e7), 4, seed=11)


def test_task_4_scaling_resamples_of_an_exact_law():
    """No residuals: all resampled laws are the law."""
    losses = [1.5 + 20 * n**-0.3 for n in SIZES]
    case = "losses on an exact law, 5 resamples"
    with noted(case):
        fit = scaling.fit_scaling_law(SIZES, losses, 5)
    found = mx.array([law(1e7) for law in fit.resampled])
    compare(found, np.full(5, 1.5 + 20 * 1e7**-0.3), mx.float32, 1e-4, f"{case}: their losses at 1e7", 5)


def test_task_4_scaling_does_not_change_lists():
    n, losses = [3e4, 1e4, 1e5, 1e6], [3.0, 4.0, 2.5, 2.0]
    before = (list(n), list(losses))
    case = "four sizes that are not sorted"
    with noted(case):
        scaling.fit_scaling_law(n, losses, 2)
    if (n, losses) != before:
        lines = (f"expected  {before[0]}", f"got       {n}")
        fail(Kind.INPUT_CHANGED, "the caller's lists were changed", case, *lines)


def test_task_4_scaling_sweep():
    for n in sizes(M=20, F=6):
        several = [1e3 * n.turn(3.0, 10.0, 21.0) ** (2.5 * i / (n.M + 2)) for i in range(n.M + 3)]
        losses = noisy(n.seed, several, spread=0.001 * n.F)
        agrees(predictions, predictions64, losses, several, (several[0], several[-1]), n.turn(0, 1), seed=n)


@property_test
@given(seed=st.integers(0, 99), factor=st.sampled_from([0.01, 10.0, 1e3]))
def test_task_4_scaling_other_units(seed, factor):
    """Sizes in thousands instead of units: E and alpha stay, and A is another number for the same curve."""
    losses = noisy(seed, SIZES, spread=0.01).tolist()
    case = f"float32, losses 5, sizes times {factor:g}, seed {seed}"
    with noted(case):
        law = scaling.fit_scaling_law(SIZES, losses, 0).law
        other = scaling.fit_scaling_law([n * factor for n in SIZES], losses, 0).law
    found = mx.array([other(n * factor) for n in SIZES])
    compare(found, np.array([law(n) for n in SIZES]), mx.float32, 1e-4, f"{case}: the fitted losses", 5)


@pytest.mark.parametrize(
    ("given_sizes", "losses", "words"),
    [
        ([1e4, 1e5, 1e6], [2.5], ("3", "1")),
        ([1e4, 1e5, 1e6], [4.0, 3.0, 2.5, 2.2], ("3", "4")),
        ([1e4, 1e5], [3.0, 2.5], ("2",)),
        ([1e4, 1e5, 1e5, 1e4], [3.0, 2.5, 2.4, 3.1], ("2",)),
        ([], [], ("0",)),
        ([0.0, 1e4, 1e5], [4.0, 3.0, 2.5], ("0.0",)),
        ([-10.0, 1e4, 1e5], [4.0, 3.0, 2.5], ("-10.0",)),
        ([1e4, 1e5, 1e6, -10.0], [3.0, 2.5, 2.2, 4.0], ("-10.0",)),
    ],
    ids=["fewer losses", "more losses", "two sizes", "two sizes twice", "none", "zero", "negative", "negative last"],
)
def test_task_4_scaling_refuses(given_sizes, losses, words):
    with raises_value_error(f"sizes {given_sizes}, losses {losses}", *words):
        scaling.fit_scaling_law(given_sizes, losses, 0)


def test_task_4_scaling_types():
    """The law's fields are Python floats."""
    case = "five sizes"
    with noted(case):
        law = scaling.fit_scaling_law(SIZES, noisy(9, SIZES).tolist(), 1).law
    for name in ("E", "A", "alpha"):
        if type(getattr(law, name)) is not float or not math.isfinite(getattr(law, name)):
            fail(Kind.TYPE, f"{name} is {getattr(law, name)!r}, expected a float", case)
