"""A task's sweep: the sizes at which programs go wrong, drawn from the letters of its inputs.

`for n in sweep(B=9, L=4200, D=130)` goes through sizes `n.B`, `n.L`, `n.D`, each no larger than its letter allows: all
equal; every size up to 20, and those past which code is cut into blocks, of each letter in turn, while the others are
small. Then through inputs of other spreads, `n.spread`. Always the same for everybody, the smallest first.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

SMALL = 20
# Where code is cut into blocks, and just past it. Then others, a third of them for each letter.
LONG = (32, 64, 65, 128, 131, 1009, 4099)
ROUND = (48, 100, 256, 257, 512, 1024)
EQUAL = (1, 2, 3, 5, 8)
# From nearly nothing to large; the sizes' own is 1. They are five, so that each meets all values that take turns.
SPREADS = (1e-6, 1e-4, 0.03, 30.0, 1000.0)


class Drawn:
    """One case of a sweep: a size for each letter, the spread of the inputs, and the seed to draw them with."""

    def __init__(self, sizes: dict[str, int], spread: float, seed: int) -> None:
        self.sizes, self.spread, self.seed = sizes, spread, seed
        self.of_sizes = spread == 1.0

    def __getattr__(self, letter: str) -> Any:
        """The size of a letter."""
        if letter not in vars(self).get("sizes", {}):
            raise AttributeError(letter)
        return self.sizes[letter]

    def turn(self, *values: T) -> T:
        """One of these values: all of them have their turn. Where a size is drawn that comes once, it is the first."""
        return values[0 if max(self.sizes.values()) > SMALL else self.seed % len(values)]


def sweep(**largest: int) -> Iterator[Drawn]:
    """The cases of a task; `largest` says how far each letter is worth going."""
    yield from sizes(**largest)
    plain = dict(zip(largest, itertools.cycle((3, 5, 4, 7, 2, 6)), strict=False))
    for seed, spread in enumerate(SPREADS * 2):
        yield Drawn({letter: min(n, largest[letter]) for letter, n in plain.items()}, spread, seed)


def sizes(**largest: int) -> Iterator[Drawn]:
    """Those for a task whose inputs have no spread."""
    for seed, table in enumerate(awkward(**largest)):
        yield Drawn(table, 1.0, seed)


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
