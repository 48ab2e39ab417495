"""How certain a result is: the bootstrap interval of a mean, and the comparison of two models on the same items."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean.

    Each resample draws n of the n values with replacement, and the interval contains the middle share `confidence` of
    the resamples' means: equal shares are cut off at both ends, at quantiles that are interpolated linearly, as by
    `np.quantile`.

    The values of resample r are at the indices in row r of
    `np.random.default_rng(seed).integers(n, size=(resamples, n))`, so that the same seed gives the same interval.

    Args:
        values: n numbers, one per item, such as 1 for a right answer and 0 for a wrong one. They are not changed.
        confidence: between 0 and 1.
        resamples: at least 1.
        seed: of the generator. NumPy's global random state is neither used nor changed.

    Returns:
        The lower and the upper end, as floats.

    Raises:
        ValueError: there are no values, or a value is not finite; confidence is not between 0 and 1; or resamples is
            below 1. The message states the argument.

    Source: Efron 1979; Efron and Tibshirani 1993, chapter 13.
    """
    data = np.array(values, dtype=np.float64)
    if not data.size or not np.isfinite(data).all():
        raise ValueError("the values must be finite numbers, at least one")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}, which is not between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}, but at least 1 is needed")
    indices = np.random.default_rng(seed).integers(len(data), size=(resamples, len(data)))  # R x n
    means = data[indices].mean(axis=1)  # R
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


class Comparison(NamedTuple):
    """Two models on the same items."""

    difference: float  # the first model's mean minus the second's
    low: float  # the lower end of the difference's interval
    high: float  # the upper end
    p_value: float  # of the sign test, two-sided


def compare_paired(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two models item by item.

    The interval is `bootstrap_interval` of the n differences, first minus second: an item is drawn for both models at
    once. The p-value is that of the exact two-sided sign test. Of the m items on which the models differ, w are won by
    the model that wins fewer. If both were equally good, each of these items would go either way with probability 1/2;
    the p-value is the probability that one of the two models wins w or fewer of m: twice the sum of C(m, i) / 2^m for i
    from 0 to w, and at most 1. It is 1 if m is 0.

    Args:
        first: the first model's n values, one per item.
        second: the second model's, in the same order of items.
        confidence, resamples, seed: as in `bootstrap_interval`.

    Returns:
        The difference of the means, its interval and the p-value, all floats. The arguments are not changed.

    Raises:
        ValueError: the numbers of values differ (the message states both), or as in `bootstrap_interval`.

    Source: Dixon and Mood 1946 (the sign test).
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values cannot be paired")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    low, high = bootstrap_interval(differences, confidence, resamples, seed)
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    decided = wins + losses
    tail = sum(math.comb(decided, i) for i in range(min(wins, losses) + 1))
    p_value = min(1.0, 2 * tail / 2**decided)
    return Comparison(math.fsum(differences) / len(differences), low, high, p_value)
