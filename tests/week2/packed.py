"""32-bit words, quantized weights and their formulas, and models that look logits up in a table."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.testkit.cases import dtype_word, shape_words, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.rounding import Array64, Round, exact

Triple = tuple[mx.array, mx.array, mx.array]


def halves(packed: mx.array) -> mx.array:
    """Return each word as two numbers that are exact in float32, the lower half first: N.. x P x 2."""
    return mx.stack([packed & 0xFFFF, packed >> 16], axis=-1).astype(mx.float32)


def halves64(values: Array64, bits: int = 4, *, r: Round = exact) -> Array64:
    """Return the halves of the words that pack these values, N.. x I, without rounding."""
    words = np.zeros((*values.shape[:-1], values.shape[-1] * bits // 32))
    for i in range(32 // bits):
        words += values[..., i :: 32 // bits] * 2.0 ** (i * bits)
    return np.stack([words % 65536, words // 65536], axis=-1)


def numbers64(packed: Array64, bits: int = 4, *, r: Round = exact) -> Array64:
    """Return the numbers packed in words, N.. x P, in order."""
    taken = [packed // 2**shift % 2**bits for shift in range(0, 32, bits)]
    return np.stack(taken, axis=-1).reshape(*packed.shape[:-1], -1)


def same_words(actual: Any, expected: mx.array, case: str) -> None:
    """Check that an array holds exactly the expected words; report a difference in hexadecimal."""

    def fail(kind: Kind, headline: str, wanted: str, got: str) -> None:
        lines = (f"expected  {wanted}", f"got       {got}")
        raise CheckFailed(Finding(kind, headline, lines, case, expected.size))

    if type(actual) is not mx.array:
        fail(Kind.TYPE, f"the packed weights are {type_words(actual)}, expected an mx.array", "", "")
    if actual.shape != expected.shape:
        fail(Kind.SHAPE, "wrong shape of the words", shape_words(expected.shape), shape_words(actual.shape))
    if actual.dtype != mx.uint32:
        fail(Kind.DTYPE, "wrong dtype of the words", "uint32", dtype_word(actual.dtype))
    mine, right = np.array(actual), np.array(expected)
    wrong = np.argwhere(mine != right)
    if len(wrong):
        at = tuple(map(int, wrong[0]))
        headline = f"{len(wrong)} of {right.size} words differ, first at {list(at)}"
        fail(Kind.VALUES, headline, f"0x{right[at]:08x}", f"0x{mine[at]:08x}")


def same_triple(actual: Any, expected: Triple, case: str) -> None:
    """Check words, scales and biases, bit for bit."""
    if not isinstance(actual, tuple) or len(actual) != 3:
        raise CheckFailed(Finding(Kind.TYPE, f"returned {type_words(actual)}, expected a tuple of three", (), case))
    for name, mine, right in zip(("scales", "biases"), actual[1:], expected[1:], strict=True):
        if type(mine) is not mx.array or mine.shape != right.shape or mine.dtype != right.dtype:
            got = f"{shape_words(mine.shape)}, {dtype_word(mine.dtype)}" if type(mine) is mx.array else type_words(mine)
            lines = (f"expected  {shape_words(right.shape)}, {dtype_word(right.dtype)}", f"got       {got}")
            raise CheckFailed(Finding(Kind.SHAPE, f"wrong shape or dtype of {name}", lines, case, right.size))
        x, y = (np.array(v.astype(mx.float32)) for v in (mine, right))
        wrong = np.argwhere(~(x == y))
        if len(wrong):
            at = tuple(map(int, wrong[0]))
            headline = f"{len(wrong)} of {y.size} {name} differ, first at {list(at)}"
            lines = (f"expected  {y[at]:.9g}", f"got       {x[at]:.9g}")
            raise CheckFailed(Finding(Kind.VALUES, headline, lines, case, right.size))
    same_words(actual[0], expected[0], case)


def in_bytes(packed: mx.array) -> mx.array:
    """Return each word as four bytes, the lowest first, as integers, so that a probe sees each bit."""
    return (packed[..., None] >> mx.arange(0, 32, 8, dtype=mx.uint32)).astype(mx.uint32) & 255


def taken_apart(found: Triple) -> tuple[mx.array, ...]:
    """Return words, scales and biases as probes compare them."""
    packed, scales, biases = found
    return in_bytes(packed), scales, biases


def weights64(packed: mx.array, scales: mx.array, biases: mx.array, group_size: int, bits: int) -> Array64:
    """Return the dequantized weights, scale * q + bias, in float64."""
    words = np.array(packed)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)
    q = (words & (2**bits - 1)).reshape(*packed.shape[:-1], -1).astype(np.float64)
    scale, bias = (
        np.repeat(np.array(x.astype(mx.float32)).astype(np.float64), group_size, -1) for x in (scales, biases)
    )
    found: Array64 = scale * q + bias
    return found


def errors64(w: mx.array, found: Triple, group_size: int, bits: int) -> Array64:
    """Return the squared error of each group, O x groups."""
    apart = np.array(w.astype(mx.float32)).astype(np.float64) - weights64(*found, group_size, bits)
    errors: Array64 = np.square(apart).reshape(len(w), -1, group_size).sum(-1)
    return errors


class TableModel:
    """A model that looks the logits after a token up in a table, V x V; records its inputs."""

    def __init__(self, table: mx.array, case: str = "") -> None:
        self.logits, self.case = table, case
        self.seen: list[list[int]] = []

    def __call__(self, tokens: Any, caches: Any = None, all_positions: bool = False) -> mx.array:
        """Return logits, 1 x L x V or 1 x 1 x V."""
        if not isinstance(tokens, mx.array) or tokens.ndim != 2 or len(tokens) != 1 or not tokens.size:
            got = shape_words(tokens.shape) if isinstance(tokens, mx.array) else type_words(tokens)
            raise CheckFailed(Finding(Kind.SHAPE, f"the model was given {got}, expected tokens, 1 x L", (), self.case))
        self.seen.append([int(token) for token in tokens[0]])
        logits = self.logits[self.rows(tokens)]
        return logits if all_positions else logits[:, -1:]

    def rows(self, tokens: mx.array) -> mx.array:
        """Return the row of the table for each position."""
        return tokens


class ContextModel(TableModel):
    """A model that looks up the sum of all tokens up to a position, modulo V: all of them change its logits."""

    def rows(self, tokens: mx.array) -> mx.array:
        """Return the row of the table for each position."""
        return mx.cumsum(tokens.astype(mx.int32), axis=-1) % len(self.logits)


def perplexity64(logits: Array64, texts: list[list[int]], context: bool = False, *, r: Round = exact) -> Array64:
    """Compute the perplexity by the formula, for a table of logits; `context`: for a ContextModel."""
    losses = []
    for text in texts:
        rows = np.cumsum(text, dtype=int) % len(logits) if context else text
        for now, following in zip(rows, text[1:], strict=False):
            row = r(logits[now])
            top = row.max()
            losses.append(r(top + np.log(np.exp(row - top).sum()) - row[following]))
    return r(np.exp(r(np.array(np.mean(losses)))))


def beyond_float16(layer: Callable[..., Callable[[mx.array], mx.array]]) -> mx.array:
    """Return the output of a packed layer where intermediate sums overflow float16.

    Half of the products are positive, and the others nearly cancel them.
    """
    signs = mx.repeat(mx.array([1, -1], mx.float16), 2048)
    x = mx.repeat(mx.array([3000, 2992], mx.float16), 2048)[None]
    return layer(*mx.quantize(mx.broadcast_to(signs, (5, 4096)), group_size=64, bits=4))(x)


by_bits = pytest.mark.parametrize("bits", [4, 8])
by_group = pytest.mark.parametrize("group_size", [32, 64, 128])


def any_words(seed, *shape):
    return mx.array(np.random.default_rng(seed).integers(0, 2**32, shape, np.uint32))


def told(w, group_size, bits, seed):
    return f"{dtype_word(w.dtype)}, w {shape_words(w.shape)}, group_size {group_size}, bits {bits}, {seed}"


KINDS = {
    "zeros": lambda x: 0 * x,
    "one number": lambda x: 0 * x + 0.7,
    "one negative number": lambda x: 0 * x - 0.7,
    "above zero": lambda x: mx.abs(x) + 0.5,
    "below zero": lambda x: -mx.abs(x) - 0.5,
    "far from zero": lambda x: 0.01 * x + 5,
    "far below zero": lambda x: 0.01 * x - 5,
    "ends equally far from zero": lambda x: mx.sign(x),
    "halves of steps": lambda x: mx.round(x * 4) / 4,
    "close to zero": lambda x: 1e-9 * x,
    "large": lambda x: 1000 * x,
    "one weight of a thousand": lambda x: mx.where(x == mx.max(x, axis=-1, keepdims=True), 1000, x),
    "one weight of minus a thousand": lambda x: mx.where(x == mx.min(x, axis=-1, keepdims=True), -1000, x),
}


def quantized(seed, outputs, inputs, group_size, bits, dtype=mx.float32, spread=1.0):
    w = normals(seed, dtype)(outputs, inputs, spread=inputs**-0.5) * spread
    return mx.quantize(w, group_size=group_size, bits=bits)


class Words(tuple[mx.array, ...]):
    """Return quantized weights named as in a case; `backwards` gives different ones of the same shapes."""

    def __str__(self):
        packed, scales, _ = self
        return f"packed {shape_words(packed.shape)}, scales {shape_words(scales.shape)} of {dtype_word(scales.dtype)}"

    def backwards(self):
        return Words(x[::-1] for x in self)


def linear64(x, bias, triple, group_size=64, bits=4, *, r=exact):
    """x @ W.T, products and sums in float32, rounded once to x's dtype; then the bias."""
    y = r(x @ weights64(*triple, group_size, bits).T)
    return y if bias is None else r(y + bias)


def table(seed, vocab=7, dtype=mx.float32, spread=1.0):
    return normals(seed, dtype)(vocab, vocab) * spread
