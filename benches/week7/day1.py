"""What token masks cost: a walk of the vocabulary, requests with a new and with a known schema, and applying a mask."""

import random
import time
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm.constrained.automaton import compile_rule
from tiny_llm.constrained.grammar import Grammar, GrammarCompiler
from tiny_llm.constrained.masking import apply_masks
from tiny_llm.constrained.masks import allowed_tokens
from tiny_llm.constrained.pattern import parse_regex
from tiny_llm.constrained.trie import TokenTrie, unpack
from tiny_llm_course.measuring.clock import Table, on_cpu, seconds

# What the book draws of the table.
CHART = ("lines", "ms", ("in a string: ms", "in a key: ms"))
LETTERS = b"etaoinshrdlucmfwypvbgkjqxz"
# Bytes that a decode step of Qwen3-0.6B in 4 bits reads besides the output layer, and those of one row of that layer.
LAYERS, ROW = 28 * (1024 * 128 * (16 + 2 * 8) + 16 * 128 * 1024 + 3 * 1024 * 3072) * 0.5625, 1024 * 0.5625
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "colors": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "legs", "colors"],
}


def measure(quick: bool = False) -> Table:
    """Random vocabularies: the walk inside a string and inside a key, then requests that share a grammar."""
    sizes, requests = ([512, 1024], 3) if quick else ([2048, 16384, 151936], 100)
    string, key = (compile_rule(parse_regex(pattern)) for pattern in ('[^"]*"', '"name":'))
    rows = []
    for size in sizes:
        trie = TokenTrie(dict(enumerate(_words(size - 1))), size)
        grammar = GrammarCompiler(trie, [size - 1]).compile(SCHEMA)
        first, *later = [_seconds_a_step(grammar, random.Random(number)) for number in range(1 + requests)]
        mask, logits = grammar.mask(grammar.start), mx.zeros((1, size))
        step, walk, fixed, apply = seconds(
            _reader(int(LAYERS + ROW * size)),
            partial(allowed_tokens, trie, string, 0),
            partial(allowed_tokens, trie, key, 0),
            partial(apply_masks, logits, {0: mask}),
        )
        each = float(np.median(later))
        rows.append((size, 1e3 * walk, 1e3 * fixed, 1e6 * first, 1e6 * each, 1e6 * apply, 1e3 * step))
    micro = "\N{GREEK SMALL LETTER MU}s"
    walks, each_step = (
        ("in a string: ms", "in a key: ms"),
        (f"{kind} schema: {micro} a step" for kind in ("new", "known")),
    )
    head = ("V", *walks, *each_step, f"apply: {micro}", "decode step: ms")
    *_, each, apply, step = rows[-1]
    note = (
        f"With V = {sizes[-1]:,} and a known schema, finding a mask takes {each:.0f} {micro} a step. With "
        f"the {apply:.0f} {micro} to apply it, that is {(each + apply) / step / 10:.1f} % of a decode step."
    )
    return Table(head, tuple(rows), note)


def _words(count: int) -> list[bytes]:
    """Return a random vocabulary that has each byte, and otherwise words of two to eight letters."""
    rng, words = random.Random(count), {bytes([n]) for n in range(256)}
    while len(words) < count:
        word = bytes(rng.choice(LETTERS) for _ in range(rng.randint(2, 8)))
        words.add((b" " if rng.random() < 0.4 else b"") + word)
    return sorted(words)


def _seconds_a_step(grammar: Grammar, rng: random.Random) -> float:
    """Return the average time to find a mask and to advance by a token, over one random text of the grammar."""
    state, steps, taken, end = grammar.start, 0, 0.0, grammar.trie.size - 1
    while True:
        started = time.perf_counter()
        mask = grammar.mask(state)
        taken, steps = taken + time.perf_counter() - started, steps + 1
        allowed = np.flatnonzero(unpack(mask, grammar.trie.size)).tolist()
        closing = [token for token in allowed if grammar.trie.bytes_of.get(token) == b'"']
        token = rng.choice(closing if closing and rng.random() < 0.1 else allowed)
        if token == end:
            return taken / steps
        started = time.perf_counter()
        state = grammar.advance(state, token)
        taken += time.perf_counter() - started


def _reader(count: int) -> Any:
    """Return a program that reads so many bytes: no decode step can be faster, as it reads each weight once."""
    if on_cpu():
        return np.ones(count // 4, np.float32).sum
    weights = mx.ones(count // 4)
    return partial(mx.sum, weights)
