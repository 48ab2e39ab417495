"""Time to learn 500 merges: pairs counted again for every merge, and counts updated only where a merge changes them."""

import itertools
import random
import time
from collections.abc import Callable
from functools import partial

from tiny_llm.bpe.naive import train_naively
from tiny_llm.bpe.trainer import train_bpe
from tiny_llm.bpe.words import count_words
from tiny_llm_course.measuring.clock import Table

MERGES = 500
SAMPLE = 4  # the merges that the naive loop is timed with

# What the book draws of the table.
CHART = ("lines", "seconds for 500 merges", ("naive: s", "incremental: s"))


def measure(quick: bool = False) -> Table:
    """Measure texts of random words, of which few occur often; each text is four times as long as the one before."""
    sizes = [10_000] if quick else [12_500, 50_000, 200_000, 800_000]
    rows = []
    for size in sizes:
        text = random_text(size)
        words = count_words([text])
        count = cpu_seconds(partial(count_words, [text]))
        slow = cpu_seconds(partial(train_naively, words, SAMPLE))
        fast = cpu_seconds(partial(train_bpe, words, MERGES))
        naive = slow * MERGES / SAMPLE
        rows.append((size / 1e6, sum(words.values()), len(words), count, naive, fast, naive / fast))
    return Table(
        ("MB", "words", "distinct", "count: s", "naive: s", "incremental: s", "speed-up"),
        tuple(rows),
        f"From {rows[-1][0]:.1f} MB, the incremental trainer learns {MERGES} merges in {rows[-1][5]:.2g} s, and the "
        f"naive loop in {rows[-1][4]:.0f} s at the speed of its first {SAMPLE} merges.",
    )


def cpu_seconds(call: Callable[[], object]) -> float:
    """Return the least CPU time of three calls: everything here runs on one core, in Python."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return min(taken)


def random_text(size: int, distinct: int = 20_000) -> str:
    """Return `size` characters of words made of syllables; the n-th word is n times as rare as the first."""
    draw = random.Random(size)
    syllables = [a + b for a, b in itertools.product("bdglmnrstpkwfhjv", "aeiou")]
    words = ["".join(draw.choices(syllables, k=draw.choice([1, 2, 2, 3]))) for _ in range(distinct)]
    weights = [1 / (1 + i) for i in range(distinct)]
    return " ".join(draw.choices(words, weights, k=size // 4))[:size]
