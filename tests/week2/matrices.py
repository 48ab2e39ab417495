"""Quantized matrices for tests of kernels, and what a product with one is in float64."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import chunks_of
from tiny_llm_course.testkit.rounding import exact

BITS, PER_WORD = 4, 8


def matrix(seed, outputs, inputs, group_size, dtype=mx.float32, spread=1.0):
    """q from 0 to 15, outputs x inputs, and for each group of a row a scale and a bias, signed and of any size."""
    q = np.random.default_rng(seed).integers(0, 16, (outputs, inputs)).astype(np.uint8)
    draw, shape = normals(seed + 1, dtype), (outputs, inputs // group_size)
    return mx.array(q), draw(*shape, spread=spread), draw(*shape, spread=4 * spread)


def packed(q):
    """As `mx.quantize` packs it: weight i of a row is in word i / 8, the first one in the lowest four bits."""
    words = np.array(q).astype(np.uint32).reshape(q.shape[0], -1, PER_WORD)
    return mx.array((words << np.arange(0, 32, BITS, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32))


def unpacked(words):
    """The q of packed words."""
    digits = np.array(words)[..., None] >> np.arange(0, 32, BITS, dtype=np.uint32) & 15
    return mx.array(digits.reshape(words.shape[0], -1).astype(np.uint8))


def by(kernel):
    """A kernel that is given q, which a learner can read, in place of packed words."""

    def product(x, q, scales, biases, group_size):
        return kernel(x, packed(q), scales, biases, group_size)

    return product


def product64(x, q, scales, biases, group_size, *, r=exact):
    """x @ W.T, with W = scale * q + bias."""
    scale, bias = (np.repeat(each, group_size, axis=-1) for each in (scales, biases))
    return r(x @ r(r(scale * q) + bias).T)


def is_divided(kernel, *tokens):
    """Whether a product with 1,030 rows is cut into chunks, so that several cores can compute it."""
    return chunks_of(by(kernel), normals(6)(*tokens, 32), *matrix(6, 1030, 32, 32), 32) > 1


def divides(kernel, *tokens):
    """Check that it is."""
    if not is_divided(kernel, *tokens):
        lines = ("expected  pool().run with two chunks or more", "got       one chunk, or no pool().run")
        raise CheckFailed(Finding(Kind.VALUES, "one core computes all rows", lines, "float32, 1030 rows of 32", 1030))
