"""A task's sweep: the sizes at which programs go wrong, drawn from the letters of its inputs.

`for n in sweep(B=9, L=4200, D=130)` goes through sizes `n.B`, `n.L`, `n.D`, each no larger than its letter allows: all
equal; every size up to 20, and those around which code is cut into blocks, of each letter in turn, while the others are
small. Then through inputs of other spreads, `n.spread`. Always the same for everybody, the smallest first.
"""

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

SMALL = 20
# Powers of two, numbers just past them, round numbers, and primes past 1,000 and 4,096.
LONG = (25, 32, 33, 49, 64, 65, 67, 100, 128, 131, 256, 257, 500, 512, 1009, 1024, 2048, 4099)
EQUAL = (1, 2, 3, 5, 8)
# From nearly nothing to large, where the sizes' own is 1.
SPREADS = (1e-6, 1e-3, 30.0, 1000.0)


class Drawn:
    """One case of a sweep: a size for each letter, the spread of the inputs, and the seed to draw them with."""

    def __init__(self, sizes: dict[str, int], spread: float, seed: int) -> None:
        self.sizes, self.spread, self.seed = sizes, spread, seed

    def __getattr__(self, letter: str) -> Any:
        """The size of a letter."""
        if letter not in vars(self).get("sizes", {}):
            raise AttributeError(letter)
        return self.sizes[letter]

    def turn(self, *values: T) -> T:
        """One of these values: all of them have their turn."""
        return values[self.seed % len(values)]


def sweep(**largest: int) -> Iterator[Drawn]:
    """The cases of a task; `largest` says how far each letter is worth going."""
    for seed, sizes in enumerate(awkward(**largest)):
        yield Drawn(sizes, 1.0, seed)
    primes = dict(zip(largest, (3, 5, 2, 4, 7, 6, 9, 8), strict=False))
    for seed, spread in enumerate(SPREADS * 3):
        yield Drawn({letter: min(n, largest[letter]) for letter, n in primes.items()}, spread, seed)


def awkward(**largest: int) -> list[dict[str, int]]:
    """Tables of sizes, by letter."""
    generator = np.random.default_rng(len(largest))
    letters = list(largest)
    tables = [dict.fromkeys(letters, n) for n in EQUAL]

    def others() -> dict[str, int]:
        return dict(zip(letters, map(int, generator.integers(1, 4, len(letters))), strict=True))

    # Two letters at a time go through the small sizes, each in an order of its own.
    for pair in (letters[i : i + 2] for i in range(0, len(letters), 2)):
        orders = [generator.permutation(np.arange(1, SMALL + 1)) for _ in pair]
        tables += [{**others(), **dict(zip(pair, map(int, row), strict=True))} for row in zip(*orders, strict=True)]
    for letter in letters:
        tables += [{**others(), letter: n} for n in LONG]
    fitting = [table for table in tables if all(table[letter] <= largest[letter] for letter in letters)]
    return sorted(fitting, key=lambda table: math.prod(table.values()))
