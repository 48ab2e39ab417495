"""What a token mask costs: the first time in a state, and again, for small and large vocabularies."""

import random
from functools import partial

import numpy as np

from tiny_llm.constrained.automaton import compile_rule
from tiny_llm.constrained.masks import allowed_tokens
from tiny_llm.constrained.pattern import parse_regex
from tiny_llm.constrained.trie import TokenTrie, unpack
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("lines", "ms", ("in a string: ms", "in a key: ms"))
LETTERS = b"etaoinshrdlucmfwypvbgkjqxz"


def measure(quick: bool = False) -> Table:
    """Random vocabularies; an automaton of a string, and one of a fixed key, in which few tokens are allowed."""
    sizes = [256, 512] if quick else [2048, 16384, 151936]
    string, key = (compile_rule(parse_regex(pattern)) for pattern in ('[^"]*"', '"name":'))
    rows = []
    for size in sizes:
        rng = random.Random(size)
        words = {bytes([n]) for n in range(256)}
        while len(words) < size:
            word = bytes(rng.choice(LETTERS) for _ in range(rng.randint(2, 8)))
            words.add((b" " if rng.random() < 0.4 else b"") + word)
        trie = TokenTrie(dict(enumerate(sorted(words))), size)
        known = {0: allowed_tokens(trie, string, 0).mask}
        first, fixed, again, apply = seconds(
            partial(allowed_tokens, trie, string, 0),
            partial(allowed_tokens, trie, key, 0),
            partial(known.get, 0),
            partial(unpack, known[0], size),
        )
        allowed = int(np.sum(unpack(known[0], size)))
        rows.append((size, allowed, 1e3 * first, 1e3 * fixed, 1e6 * again, 1e6 * apply))
    head = ("V", "allowed", "in a string: ms", "in a key: ms", "known: \N{MICRO SIGN}s", "unpack: \N{MICRO SIGN}s")
    factor = rows[-1][2] / rows[-1][3]
    note = f"With V = {sizes[-1]:,}, the walk inside a string takes {factor:.0f} times as long as the one inside a key."
    return Table(head, tuple(rows), note)
