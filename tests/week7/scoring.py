"""Runs of agents and their scores by enumeration, for task 7.6.2."""

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """One run, as the tests write it down."""

    case: str
    solved: bool
    steps: int
    tokens: int


def runs(text: str) -> list[Row]:
    """Return runs such as "pages+ pages- slug+": + is solved. Steps and tokens differ from run to run."""
    return [Row(word[:-1], word[-1] == "+", 3 + i % 4, 1000 * (1 + i % 7)) for i, word in enumerate(text.split())]


UNEQUAL = runs("slug+ pages- pages- slug- pages- tags+ pages- pages- pages-")
EVEN = runs("b+ a- b- a- c+ c+ b+ a- c+ b- a+ c+")  # four of each
SWAPPED = runs("c+ c- a- b+ a+ b+ c- b+ a- a+ c+ b+")
ONCE = runs("one+ two- three+ four+ five- six+")


def random_runs(seed: int, cases: int, times: int) -> list[Row]:
    """Return runs of some cases in a random order."""
    draw = random.Random(seed)
    found = [Row(f"case{i}", draw.random() < i / cases, draw.randint(1, 30), draw.randint(1, 90_000))
             for i in range(cases) for _ in range(times)]  # fmt: skip
    draw.shuffle(found)
    return found


def shares(rows: Sequence[Row]) -> dict[str, Fraction]:
    """Return the share of solved runs of each case."""
    names = dict.fromkeys(row.case for row in rows)
    return {name: Fraction(sum(row.solved for row in rows if row.case == name),
                           sum(row.case == name for row in rows)) for name in names}  # fmt: skip


def mean(values: Sequence[Any]) -> float:
    """Return the mean, rounded once."""
    return float(sum(map(Fraction, values)) / len(values))


def interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return the bootstrap interval of week 5."""
    data = np.array(values)
    means = data[np.random.default_rng(0).integers(len(data), size=(10_000, len(data)))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def sign_test(differences: Sequence[float]) -> float:
    """Return the p-value of the exact two-sided sign test, by going through all ways the cases could have gone."""
    signs = [difference > 0 for difference in differences if difference]
    rarer = min(sum(signs), len(signs) - sum(signs))
    ways = list(itertools.product([False, True], repeat=len(signs)))
    return min(1.0, 2 * sum(sum(way) <= rarer for way in ways) / len(ways))


def sets_of_runs(rows: Sequence[Row], k: int, every: bool) -> float:
    """Return pass^k, or pass@k, by going through all sets of k runs of each case."""
    found = []
    for name in shares(rows):
        results = [row.solved for row in rows if row.case == name]
        sets = list(itertools.combinations(results, k))
        found.append(Fraction(sum((all if every else any)(each) for each in sets), len(sets)))
    return mean(found)


def usage(rows: Sequence[Row], price: float) -> tuple[float, float, float, float]:
    """Return mean steps, mean tokens, dollars of all, and dollars for each solved run."""
    solved = sum(row.solved for row in rows)
    dollars = sum(row.tokens for row in rows) * price / 1_000_000
    return (
        mean([r.steps for r in rows]),
        mean([r.tokens for r in rows]),
        dollars,
        dollars / solved if solved else math.inf,
    )
