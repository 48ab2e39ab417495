"""A task's sweep: the sizes at which programs go wrong, one per letter of the inputs' shapes.

`for n in sweep(B=9, L=4200, D=130)` yields sizes `n.B`, `n.L`, `n.D`, each at most its letter's limit: all equal; then
for each letter in turn all small sizes and those just past common block sizes. Then other spreads, and the narrow
dtypes.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np

from .inputs import DTYPES, SHIFTS

T = TypeVar("T")

SMALL = 20
# Common block sizes, and just past them. Then others, a third of them for each letter.
LONG = (32, 64, 65, 128, 131, 1009, 4099)
ROUND = (48, 100, 256, 257, 512, 1024)
EQUAL = (1, 2, 3, 5, 8)
# From tiny to large; the size cases use 1. They are five, so that each meets all rotating values.
SPREADS = (1e-6, 1e-4, 0.03, 30.0, 1000.0)
# bfloat16 counts to 256 and float16 to 2,048: larger positions and ranks must not be computed in them.
UNCOUNTABLE = (300, 2100)


class SweepCase:
    """One case of a sweep: a size per letter, the inputs' spread and dtype, and the seed to draw them with."""

    def __init__(self, sizes: dict[str, int], spread: float, seed: int, dtype: mx.Dtype = mx.float32) -> None:
        self.sizes, self.spread, self.seed, self.dtype = sizes, spread, seed, dtype
        self.of_sizes = spread == 1.0

    def __getattr__(self, letter: str) -> Any:
        if letter not in vars(self).get("sizes", {}):
            raise AttributeError(letter)
        return self.sizes[letter]

    def turn(self, *values: T) -> T:
        """Return one of these values, all of them in rotation; the first one where a large size occurs only once."""
        return values[0 if self.of_sizes and max(self.sizes.values()) > SMALL else self.seed % len(values)]

    @property
    def shift(self) -> float:
        """What is added to scores: SHIFTS in rotation in float32; 0 in the narrow dtypes, which lack the digits."""
        return self.turn(*SHIFTS) if self.dtype == mx.float32 else 0

    def each(self, *values: T) -> tuple[T, ...]:
        """Return one of these values, or all of them where all sizes are equal, so that axes could be confused."""
        return values if len({*self.sizes.values()}) == 1 else (self.turn(*values),)


def sweep(**largest: int) -> Iterator[SweepCase]:
    """Yield the cases of a task; `largest` limits each letter."""
    yield from sizes(**largest)
    for seed, spread in enumerate(SPREADS * 2):
        yield SweepCase(_plain(largest), spread, seed)
    yield from narrow(**largest)


def sizes(**largest: int) -> Iterator[SweepCase]:
    """Yield the cases of a task whose inputs have no spread."""
    for seed, table in enumerate(awkward(**largest)):
        yield SweepCase(table, 1.0, seed)


def narrow(**largest: int) -> Iterator[SweepCase]:
    """Yield the cases in float16 and bfloat16: all rotating values, then sizes to which the dtype cannot count."""
    for i, dtype in enumerate(DTYPES[1:]):
        for seed, spread in enumerate(SPREADS):
            wide = spread if dtype == mx.bfloat16 else 1.0  # float16 lacks the range
            yield SweepCase(_plain(largest), wide, i * len(SPREADS) + seed, dtype)
        for letter, most in largest.items():
            if far := [n for n in UNCOUNTABLE if n <= most]:
                few = {other: min(2, n) for other, n in largest.items()}
                yield SweepCase({**few, letter: far[-1]}, 0.03, i + 1, dtype)  # nearly equal: sums must not overflow


def _plain(largest: dict[str, int]) -> dict[str, int]:
    """Return a size for each letter, neighbors all different."""
    return {x: min(n, largest[x]) for x, n in zip(largest, itertools.cycle((3, 5, 4, 7, 2, 6)), strict=False)}


def awkward(**largest: int) -> list[dict[str, int]]:
    """Return tables of sizes, by letter."""
    generator = np.random.default_rng(len(largest))
    letters = list(largest)
    tables = [dict.fromkeys(letters, n) for n in EQUAL]

    def others(least: int) -> dict[str, int]:
        return dict(zip(letters, map(int, generator.integers(least, 4, len(letters))), strict=True))

    # Three letters at a time take all small sizes, each in an order of its own.
    for some in (letters[i : i + 3] for i in range(0, len(letters), 3)):
        orders = [generator.permutation(np.arange(1, max(largest[x] for x in some) + 1)[:SMALL]) for x in some]
        tables += [{**others(1), **dict(zip(some, map(int, row), strict=True))} for row in zip(*orders, strict=True)]
    for i, letter in enumerate(letters):
        tables += [{**others(2), letter: n} for n in (*LONG, *ROUND[i % 3 :: 3]) if n <= largest[letter]]
    fitting = [{letter: min(n, largest[letter]) for letter, n in table.items()} for table in tables]
    return sorted(fitting, key=lambda table: math.prod(table.values()))
