"""A task's sweep: the sizes at which programs go wrong, drawn from the letters of its inputs.

`for n in sweep(B=9, L=4200, D=130)` goes through sizes `n.B`, `n.L`, `n.D`, each no larger than its letter allows: all
equal; every size up to 20, and those past which code is cut into blocks, of each letter in turn, while the others are
small. Then through inputs of other spreads, `n.spread`, and through the narrow dtypes, `n.dtype`. Always the same for
everybody, the smallest first.
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
# Where code is cut into blocks, and just past it. Then others, a third of them for each letter.
LONG = (32, 64, 65, 128, 131, 1009, 4099)
ROUND = (48, 100, 256, 257, 512, 1024)
EQUAL = (1, 2, 3, 5, 8)
# From nearly nothing to large; the sizes' own is 1. They are five, so that each meets all values that take turns.
SPREADS = (1e-6, 1e-4, 0.03, 30.0, 1000.0)
# bfloat16 counts to 256 and float16 to 2,048: positions and ranks past that must not be numbers of theirs.
UNCOUNTABLE = (300, 2100)


class Drawn:
    """One case of a sweep: a size for each letter, the inputs' spread and dtype, and the seed to draw them with."""

    def __init__(self, sizes: dict[str, int], spread: float, seed: int, dtype: mx.Dtype = mx.float32) -> None:
        self.sizes, self.spread, self.seed, self.dtype = sizes, spread, seed, dtype
        self.of_sizes = spread == 1.0

    def __getattr__(self, letter: str) -> Any:
        """The size of a letter."""
        if letter not in vars(self).get("sizes", {}):
            raise AttributeError(letter)
        return self.sizes[letter]

    def turn(self, *values: T) -> T:
        """One of these values: all of them have their turn. Where a size is drawn that comes once, it is the first."""
        return values[0 if self.of_sizes and max(self.sizes.values()) > SMALL else self.seed % len(values)]

    @property
    def shift(self) -> float:
        """What is added to scores: SHIFTS in turn, in float32; the narrow dtypes have no digits so far from 0."""
        return self.turn(*SHIFTS) if self.dtype == mx.float32 else 0

    def each(self, *values: T) -> tuple[T, ...]:
        """One of these values, and all of them where all sizes are equal, so that axes can be taken for each other."""
        return values if len({*self.sizes.values()}) == 1 else (self.turn(*values),)


def sweep(**largest: int) -> Iterator[Drawn]:
    """The cases of a task; `largest` says how far each letter is worth going."""
    yield from sizes(**largest)
    for seed, spread in enumerate(SPREADS * 2):
        yield Drawn(_plain(largest), spread, seed)
    yield from narrow(**largest)


def sizes(**largest: int) -> Iterator[Drawn]:
    """Those for a task whose inputs have no spread."""
    for seed, table in enumerate(awkward(**largest)):
        yield Drawn(table, 1.0, seed)


def narrow(**largest: int) -> Iterator[Drawn]:
    """Those in float16 and bfloat16: each meets all values that take turns, and then sizes to which it cannot count.

    bfloat16 holds numbers of all spreads. The large sizes' inputs are nearly equal: long sums outgrow the dtype.
    """
    for i, dtype in enumerate(DTYPES[1:]):
        for seed, spread in enumerate(SPREADS):
            wide = spread if dtype == mx.bfloat16 else 1.0
            yield Drawn(_plain(largest), wide, i * len(SPREADS) + seed, dtype)
        for letter, most in largest.items():
            if far := [n for n in UNCOUNTABLE if n <= most]:
                few = {other: min(2, n) for other, n in largest.items()}
                yield Drawn({**few, letter: far[-1]}, 0.03, i + 1, dtype)


def _plain(largest: dict[str, int]) -> dict[str, int]:
    """A size for each letter, neighbours' all different."""
    plain = zip(largest, itertools.cycle((3, 5, 4, 7, 2, 6)), strict=False)
    return {letter: min(n, largest[letter]) for letter, n in plain}


def awkward(**largest: int) -> list[dict[str, int]]:
    """Tables of sizes, by letter."""
    generator = np.random.default_rng(len(largest))
    letters = list(largest)
    tables = [dict.fromkeys(letters, n) for n in EQUAL]

    def others(least: int) -> dict[str, int]:
        return dict(zip(letters, map(int, generator.integers(least, 4, len(letters))), strict=True))

    # Three letters at a time go through the small sizes, each in an order of its own.
    for some in (letters[i : i + 3] for i in range(0, len(letters), 3)):
        orders = [generator.permutation(np.arange(1, max(largest[x] for x in some) + 1)[:SMALL]) for x in some]
        tables += [{**others(1), **dict(zip(some, map(int, row), strict=True))} for row in zip(*orders, strict=True)]
    for i, letter in enumerate(letters):
        tables += [{**others(2), letter: n} for n in (*LONG, *ROUND[i % 3 :: 3]) if n <= largest[letter]]
    fitting = [{letter: min(n, largest[letter]) for letter, n in table.items()} for table in tables]
    return sorted(fitting, key=lambda table: math.prod(table.values()))
