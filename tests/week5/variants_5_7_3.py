"""Known programs of task 5.7.3, the bootstrap interval."""

import math
import random
from statistics import NormalDist

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.7.3")
RIGHT = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
SKEWED = [0.1, 0.4, 0.2, 3.0, 0.3, 7.0, 0.5, 0.7]


def run(program, *given):
    return mx.array([*program(*given)])


known.probe_table(
    right_and_wrong=lambda program: run(program, RIGHT, 0.9, 150, 0),
    skewed=lambda program: run(program, SKEWED, 0.8, 60, 3),
    as_many=lambda program: run(program, SKEWED, 0.5, 8, 5),
    one_value=lambda program: run(program, [0.25], 0.9, 20, 1),
    not_finite=lambda program: refusals(lambda x: run(program, [1.0, x], 0.9, 20, 1), [math.nan, math.inf]),
    no_values=lambda program: refusals(lambda x: run(program, x, 0.9, 20, 1), [[]]),
    refused=lambda program: refusals(
        lambda given: run(program, RIGHT, *given, 1), [(0, 20), (1, 20), (95, 20), (0.9, 0), (0.9, -1)]
    ),
)


@known.sized("200 values, 2,000 resamples")
def sized(program):
    values = np.random.default_rng(1).integers(0, 2, 200).astype(float).tolist()
    return lambda: program(values, 0.95, 2000, 0)


INDICES = "np.random.default_rng(seed).integers(len(data), size=(resamples, len(data)))"
QUANTILES = "np.quantile(means, [tail, 1 - tail])"
known.change(
    "without-replacement",
    (INDICES, "np.argsort(np.random.default_rng(seed).random((resamples, len(data))), axis=1)"),
    fact="each resample is a permutation of the values, so that all means are equal",
    question="If you draw all n of n values without replacement, which ones are missing?",
)
known.change(
    "whole-tail-at-each-end",
    ("tail = (1 - confidence) / 2", "tail = 1 - confidence"),
    fact="the whole remaining share is cut off at each end: 95 % becomes 90 %",
    question="If 95 % are to remain, how much is cut off below and how much above?",
)
known.change(
    "quantiles-of-the-values",
    (QUANTILES, "np.quantile(data, [tail, 1 - tail])"),
    fact="the ends are quantiles of the values themselves",
    question="Where do 95 % of the single answers lie, and where do 95 % of the means?",
)
known.change(
    "median",
    ("means = data[indices].mean(axis=1)", "means = np.median(data[indices], axis=1)"),
    fact="each resample's median is taken instead of its mean",
    question="What is the median of eleven zeros and ones?",
)
known.change(
    "wrong-axis",
    (".mean(axis=1)", ".mean(axis=0)"),
    fact="the means are taken over the resamples, not over the values of one",
    question="data[indices] is R x n. How many means do you need?",
)
known.change(
    "not-interpolated",
    (QUANTILES, 'np.quantile(means, [tail, 1 - tail], method="lower")'),
    fact="the quantiles are not interpolated: the next lower mean is taken",
    question="What lies between two of the sorted means?",
)
known.change(
    "upper-place-one-lower",
    (QUANTILES, "np.sort(means)[[int(tail * resamples), int((1 - tail) * resamples) - 1]]"),
    fact="the ends are sorted means at whole places, the upper one rounded down and lowered by 1",
    question="Is a quantile of R sorted means always one of them? What lies between two of them?",
)
known.change(
    "places-rounded-down",
    (QUANTILES, "np.sort(means)[[int(tail * resamples), min(int((1 - tail) * resamples), resamples - 1)]]"),
    fact="the ends are sorted means at places that are rounded down, so nothing is interpolated",
    question="Must a quantile of R sorted means be one of them?",
)
known.change(
    "same-number-cut-off",
    (QUANTILES, "np.sort(means)[[int(tail * resamples), resamples - 1 - int(tail * resamples)]]"),
    fact="the same whole number of means is cut off at each end, so nothing is interpolated",
    question="5 % of 150 means are 7.5. Between which two of the sorted means is the lower end?",
)
known.change(
    "one-column-per-resample",
    ("data[indices].mean(axis=1)", "data[indices.reshape(len(data), resamples)].mean(axis=0)"),
    fact="the indices are drawn as an n x R array, and each of its columns is a resample",
    question="Which axis of the drawn indices does the docstring number by the resamples?",
)
known.change(
    "global-generator",
    ("indices = np.random.default_rng(seed).integers(", "np.random.seed(seed)\nindices = np.random.randint("),
    fact="the indices are drawn by `randint` of NumPy's old generator, which np.random.seed seeds globally",
    question="Whose random numbers does np.random.seed change, and which generator does the docstring name?",
)
known.change(
    "basic-interval",
    ("return float(low), float(high)", "return float(2 * data.mean() - high), float(2 * data.mean() - low)"),
    fact="the interval is mirrored at the mean, as in the basic bootstrap",
    question="The docstring's interval contains the middle of the resampled means. Does yours?",
)
known.change(
    "nan-accepted",
    ("if not data.size or not np.isfinite(data).all():", "if not data.size:"),
    fact="a value that is not finite is accepted",
    question="One item's score is NaN. What are the means of the resamples that contain it?",
)
known.change(
    "standard-errors",
    (
        f"{QUANTILES}",
        "np.mean(means) + np.std(means) * np.array([-1, 1]) * 1.959963984540054",
    ),
    fact="the interval is the mean of the resamples' means plus and minus 1.96 of their standard deviations",
    question="Where does your code use `confidence`? And is the distribution of the means symmetric?",
)


@known.wrong(
    "normal-approximation",
    fact="the interval is the mean plus and minus normal quantiles times the standard error, without resampling",
    question="With one value, or with all values equal, what is the standard deviation? Where are the resamples?",
)
def normal(values, confidence=0.95, resamples=10_000, seed=0):
    data = np.array(values, dtype=np.float64)
    if not data.size or not np.isfinite(data).all() or not 0 < confidence < 1 or resamples < 1:
        raise ValueError("values, confidence or resamples is out of range")
    half = NormalDist().inv_cdf((1 + confidence) / 2) * data.std() / math.sqrt(len(data))
    return float(data.mean() - half), float(data.mean() + half)


@known.wrong(
    "other-generator",
    fact="the resamples are drawn by another generator than the docstring states",
    question="Which generator, and which call of it, gives the indices?",
)
def other(values, confidence=0.95, resamples=10_000, seed=0):
    data = [float(value) for value in values]
    if not data or not all(map(math.isfinite, data)) or not 0 < confidence < 1 or resamples < 1:
        raise ValueError("values, confidence or resamples is out of range")
    draw = random.Random(seed)
    means = [sum(draw.choices(data, k=len(data))) / len(data) for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


@known.accepted("resample by resample, quantiles by hand")
def by_hand(values, confidence=0.95, resamples=10_000, seed=0):
    count = len(values)
    if not count or any(not math.isfinite(value) for value in values):
        raise ValueError("the values must be finite")
    if confidence <= 0 or confidence >= 1 or resamples <= 0:
        raise ValueError("confidence and resamples must be in range")
    table = np.random.default_rng(seed).integers(0, count, (resamples, count))
    means = sorted(math.fsum(values[i] for i in row) / count for row in table.tolist())

    def quantile(share):
        at = share * (resamples - 1)
        first = math.floor(at)
        rest = at - first
        return means[first] if rest == 0 else (1 - rest) * means[first] + rest * means[first + 1]

    return quantile((1 - confidence) / 2), quantile(1 - (1 - confidence) / 2)
