"""Quantized matrices for tests of kernels, and their products in float64."""

import math
from functools import partial

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import watched
from tiny_llm_course.testkit.rounding import exact, in_float32

BITS, PER_WORD = 4, 8


def matrix(seed, outputs, inputs, group_size, dtype=mx.float32, spread=1.0):
    """Return q from 0 to 15, outputs x inputs, and a scale and a bias per group, of any sign and size."""
    q = np.random.default_rng(seed).integers(0, 16, (outputs, inputs)).astype(np.uint8)
    draw, shape = normals(seed + 1, dtype), (outputs, inputs // group_size)
    return mx.array(q), draw(*shape, spread=spread), draw(*shape, spread=4 * spread)


def packed(q):
    """Pack like `mx.quantize`: weight i of a row is in word i / 8, the first one in the lowest four bits."""
    words = np.array(q).astype(np.uint32).reshape(q.shape[0], -1, PER_WORD)
    return mx.array((words << np.arange(0, 32, BITS, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32))


def unpacked(words):
    """Return the q of packed words."""
    digits = np.array(words)[..., None] >> np.arange(0, 32, BITS, dtype=np.uint32) & 15
    return mx.array(digits.reshape(words.shape[0], -1).astype(np.uint8))


def by(kernel):
    """Wrap a kernel to take q, which a learner can read, instead of packed words."""

    def product(x, q, scales, biases, group_size, *more, **options):
        return kernel(x, packed(q), scales, biases, group_size, *more, **options)

    return product


def product(program, seed, *sizes, dtype=mx.float32, more=()):
    """Return a kernel's output for seeded inputs. Sizes: tokens if there are several, outputs, inputs, group size."""
    *tokens, outputs, inputs, group_size = sizes
    given = matrix(seed, outputs, inputs, group_size, dtype)
    return by(program)(normals(seed)(*tokens, inputs), *given, group_size, *more)


def beyond_float16(program, *tokens):
    """Return a kernel's float16 output where intermediate sums overflow float16."""
    x = mx.array([20000] * 64 + [-20000] * 62 + [-19000, -17000], mx.float16)
    q, ones = mx.ones((8, 128), mx.uint8), mx.ones((8, 2), mx.float16)
    return by(program)(x.reshape(*tokens, 128), q, ones, 0 * ones, 64)


def timed(*sizes):
    """Return a builder of the function to time; sizes are tokens if there are several, outputs and inputs."""
    *tokens, outputs, inputs = sizes

    def build(program):
        x, given = normals(1)(*tokens, inputs), matrix(1, outputs, inputs, 64)
        return lambda: by(program)(x, *given, 64)

    return build


def product64(x, q, scales, biases, group_size, parts=1, *, r=exact):
    """x @ W.T, with W = scale * q + bias in float32; the number of parts makes no difference."""
    wide = in_float32(r)
    scale, bias = (np.repeat(each, group_size, axis=-1) for each in (scales, biases))
    return r(x @ wide(wide(scale * q) + bias).T)


def multiplies(kernel, *given, seed, **options):
    """Compare a kernel with the formula. The failing case states the options of a `partial`, such as parts."""
    if isinstance(kernel, partial):
        kernel, options = kernel.func, kernel.keywords | options
    agrees(by(kernel), product64, *given, seed=seed, **options)


def one_weight(kernel, *tokens):
    """Only one weight is not 0, at each position of a word in turn; x counts up, so that all its values differ."""
    x = (mx.arange(math.prod(tokens) * 64) + 1).astype(mx.float32).reshape(*tokens, 64)
    for place in range(9):
        q = np.zeros((2, 64), np.uint8)
        q[1, place] = 3
        given = mx.array(q), mx.ones((2, 1)), mx.zeros((2, 1))
        multiplies(kernel, x, *given, 64, seed=place)


def scales_alone(kernel, *tokens):
    """Every q is 1 and every bias 0: only the scales matter."""
    _, scales, _ = matrix(3, 5, 256, 64)
    x, q = normals(3)(*tokens, 256), mx.ones((5, 256), mx.uint8)
    multiplies(kernel, x, q, scales, mx.zeros((5, 4)), 64, seed=3)


def biases_alone(kernel, *tokens):
    """Every q is 0: only the biases matter."""
    _, _, biases = matrix(4, 5, 256, 64)
    x, q = normals(4)(*tokens, 256), mx.zeros((5, 256), mx.uint8)
    multiplies(kernel, x, q, mx.zeros((5, 4)), biases, 64, seed=4)


def is_divided(kernel, *tokens):
    """Return whether chunks that run on several cores compute a product with 1,030 rows."""
    return _chunks(kernel, *tokens) > 1


def divides(kernel, *tokens):
    """Check that they do."""
    if (chunks := _chunks(kernel, *tokens)) < 2:
        lines = ("expected  pool().run with two chunks or more that read W and write y", f"got       {chunks}")
        raise CheckFailed(Finding(Kind.COSTS, "one core computes all rows", lines, "float32, 1030 rows of 32", 1030))


def _chunks(kernel, *tokens):
    """Return how many chunks of a loop read inputs and write y."""
    return watched(by(kernel), normals(6)(*tokens, 32), *matrix(6, 1030, 32, 32), 32).chunks


def packed_loads(kernel, *tokens):
    """Return how many loads read the packed words of a matrix of 16 x 512 weights, and their bytes."""
    return watched(by(kernel), normals(7)(*tokens, 512), *matrix(7, 16, 512, 64), 64).loads[1]


def rows_read(kernel, tokens):
    """Return how many times as many bytes of the packed words several tokens read as one does."""
    return packed_loads(kernel, tokens)[1] / packed_loads(kernel, 1)[1]
