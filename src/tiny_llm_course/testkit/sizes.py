"""Sizes at which programs go wrong, drawn for any task from the letters of its inputs.

`awkward(B=9, L=4200, D=130)` gives tables of sizes, each no larger than its letter allows: all ones; all equal; every
size up to 20, and the particular ones around which code is cut into blocks, of each letter in turn, while the others
are small. Always the same ones for everybody, the smallest first.
"""

import math

import numpy as np

SMALL = 20
# Powers of two, numbers just past them, round numbers, and primes past 1,000 and 4,096.
LONG = (25, 32, 33, 49, 64, 65, 67, 100, 128, 131, 256, 257, 500, 512, 1009, 1024, 2048, 4099)
EQUAL = (1, 2, 3, 5, 8)
# How large inputs are: nearly nothing, small, as in the examples, large.
SPREADS = (1e-6, 1e-3, 1.0, 30.0)

Sizes = dict[str, int]


def awkward(**largest: int) -> list[Sizes]:
    """Tables of sizes, by letter. `largest` says how far each letter is worth going."""
    generator = np.random.default_rng(len(largest))
    letters = list(largest)
    tables = [dict.fromkeys(letters, n) for n in EQUAL if n <= min(largest.values())]

    def others() -> Sizes:
        return {letter: int(n) for letter, n in zip(letters, generator.integers(1, 4, len(letters)), strict=True)}

    # Two letters at a time go through the small sizes, each in an order of its own.
    for pair in (letters[i : i + 2] for i in range(0, len(letters), 2)):
        orders = [generator.permutation(np.arange(1, SMALL + 1)) for _ in pair]
        for sizes in zip(*orders, strict=True):
            tables.append({**others(), **dict(zip(pair, map(int, sizes), strict=True))})
    for letter in letters:
        tables += [{**others(), letter: n} for n in LONG]
    fitting = [table for table in tables if all(table[letter] <= largest[letter] for letter in letters)]
    return sorted(fitting, key=lambda table: math.prod(table.values()))
