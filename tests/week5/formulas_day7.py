"""The formulas of week 5, day 7, in float64 or by enumeration."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32

FIELDS = ("total", "per_token", "per_byte")


def log_softmax64(x: Array64) -> Array64:
    """Return log-probabilities along the last axis."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    logs: Array64 = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return logs


def common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens at the beginning that all rows share."""
    least = min(map(len, rows))
    return next((i for i in range(least) if len({row[i] for row in rows}) > 1), least)


def choices64(
    table: Array64, toy: Any, prompt: str, choices: Sequence[str], field: str, *, r: Round = exact
) -> Array64:
    """Score choices by a `Toy` whose logits after tokens are a row of `table`."""
    rows = [toy.encode(prompt + choice) for choice in choices]
    shared = common_prefix([toy.encode(prompt), *rows])
    found = []
    for row, choice in zip(rows, choices, strict=True):
        places = toy.rows_of(np.array(row), len(table))[shared - 1 : -1]
        logs = log_softmax64(table[places])
        total = sum(logs[i, token] for i, token in enumerate(row[shared:]))
        found.append(total / {"total": 1, "per_token": len(row) - shared, "per_byte": len(choice.encode())}[field])
    return in_float32(r)(np.array(found))


def pass_by_counting(samples: int, correct: int, k: int) -> float:
    """Return the share of all sets of k samples that contain a correct one, by trying every set."""
    sets = list(itertools.combinations(range(samples), k))
    return sum(any(sample < correct for sample in each) for each in sets) / len(sets)


def bootstrap64(values: Sequence[float], confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """Return the percentile interval, with quantiles interpolated by hand."""
    count = len(values)
    indices = np.random.default_rng(seed).integers(count, size=(resamples, count))
    means = sorted(sum(values[i] for i in row) / count for row in indices.tolist())

    def quantile(share: float) -> float:
        at = share * (resamples - 1)
        below = min(int(at), resamples - 2) if resamples > 1 else 0
        above = min(below + 1, resamples - 1)
        return float(means[below] + (at - below) * (means[above] - means[below]))

    return quantile((1 - confidence) / 2), quantile((1 + confidence) / 2)


def sign_test_by_flipping(differences: Sequence[float]) -> float:
    """Return the two-sided p-value by giving each decided item to either model, in all ways."""
    decided = [d for d in differences if d]
    fewer = min(sum(d > 0 for d in decided), sum(d < 0 for d in decided))
    outcomes = [sum(ways) for ways in itertools.product((0, 1), repeat=len(decided))]
    low, high = (sum(test) for test in zip(*((w <= fewer, len(decided) - w <= fewer) for w in outcomes), strict=True))
    return min(1.0, float(low + high) / len(outcomes))


def shares_by_search(items: Sequence[Sequence[int]], documents: Sequence[Sequence[int]], n: int) -> list[float]:
    """Return each item's share of n-grams that occur in a document, by looking at every place of every document."""

    def occurs(gram: Sequence[int]) -> bool:
        return any(
            list(document[i : i + n]) == list(gram) for document in documents for i in range(len(document) - n + 1)
        )

    return [sum(occurs(item[i : i + n]) for i in range(len(item) - n + 1)) / (len(item) - n + 1) for item in items]
