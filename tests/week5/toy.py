"""Small tokenizers and models for the tests and known programs of day 7, and the checks of plain floats."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail

LETTERS = " .abcdefghijklmnopqrstuvwxyzéü"
WORDS = (" the", " dog", " cat", " boy", "boy", " bo", "ca", "at", " w", "tail", " tail", "og", "ed")


class Toy:
    """A tokenizer, and a model whose next-token logits are a row of a table that depends on all tokens so far."""

    def __init__(self, pieces: Sequence[str]) -> None:
        """Number the pieces; a text is cut from left to right, the longest piece first."""
        self.pieces = list(pieces)
        self.longest_first = sorted(self.pieces, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"<a tokenizer of {len(self.pieces)} tokens>"

    def encode(self, text: str) -> list[int]:
        """Convert text to ids."""
        ids = []
        while text:
            piece = next(piece for piece in self.longest_first if text.startswith(piece))
            ids.append(self.pieces.index(piece))
            text = text[len(piece) :]
        return ids

    def rows_of(self, tokens: Any, rows: int) -> Any:
        """Return the table row after each token: it depends on all tokens up to there, and on their order."""
        return np.cumsum(np.array(tokens) * (np.arange(len(tokens)) + 3)) % rows

    def logits(self, table: mx.array) -> Callable[[mx.array], mx.array]:
        """Return the model: 1 x L tokens in, 1 x L x V logits out, exactly in the table's dtype."""

        def run(tokens: mx.array) -> mx.array:
            if tokens.ndim != 2 or len(tokens) != 1:
                raise ValueError(f"the model was called with tokens of shape {tokens.shape}, not 1 x L")
            places = self.rows_of(np.array(tokens[0]), len(table))
            return table[mx.array(places.astype(np.int32))][None]

        return run


class Characters(Toy):
    """Every character is a token: character U+0100 + i is number i, of two bytes up to 1,791."""

    def __init__(self, count: int) -> None:
        super().__init__([])
        self.count = count

    def __repr__(self) -> str:
        return f"<a tokenizer of {self.count} characters>"

    def encode(self, text: str) -> list[int]:
        """Convert text to ids."""
        return [ord(character) - 0x100 for character in text]

    def text(self, ids: Sequence[int]) -> str:
        """Convert ids to text."""
        return "".join(chr(0x100 + i) for i in ids)


TOY = Toy([*LETTERS, *WORDS])
PROMPT, CHOICES = "the dog wagged his", [" tail.", " w.", " cat at the boy"]


def table_of(seed: int, dtype: mx.Dtype = mx.float32, size: int = len(TOY.pieces), spread: float = 2.0) -> mx.array:
    """Return seeded logits, 17 x V."""
    drawn = np.random.default_rng(seed).standard_normal((17, size)) * spread
    return mx.array(drawn.astype(np.float32)).astype(dtype)


def same_float(actual: Any, expected: float, what: str, case: str, size: int = 0) -> None:
    """Check that a value is a Python float and equals the expected one up to a relative error of 1e-9."""
    if type(actual) is not float:
        fail(Kind.TYPE, f"{what} is {type_words(actual)}, expected a float", case, size=size)
    if not math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12):
        fail(Kind.VALUES, f"{what} is wrong", case, f"expected  {expected:.10g}", f"got       {actual:.10g}", size=size)


def same_floats(actual: Any, expected: Sequence[float], what: str, case: str) -> None:
    """Check a list of floats."""
    if type(actual) is not list:
        fail(Kind.TYPE, f"got {type_words(actual)}, expected a list", case, size=len(expected))
    if len(actual) != len(expected):
        lines = (f"expected  {len(expected)}", f"got       {len(actual)}")
        fail(Kind.SHAPE, "wrong length of the list", case, *lines, size=len(expected))
    for i, (one, wanted) in enumerate(zip(actual, expected, strict=True)):
        same_float(one, wanted, f"{what} {i}", case, len(expected))


def words_of(values: Sequence[float]) -> str:
    """Return values in words, shortened."""
    text = ", ".join(f"{value:g}" for value in values[:8])
    return f"[{text}{', ...' if len(values) > 8 else ''}] ({len(values)})"
