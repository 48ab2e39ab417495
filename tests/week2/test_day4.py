"""Week 2, day 4: the kernels in C++, one by one.

The oracles are the float64 product with the dequantized weights, and MLX's `quantized_matmul` in float32. The checked
build reports invalid memory accesses.
"""

import math

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.formulas import softmax64
from tests.week2.matrices import (
    BITS,
    biases_alone,
    by,
    divides,
    matrix,
    one_weight,
    packed_loads,
    product64,
    rows_read,
    scales_alone,
    unpacked,
)

from tiny_llm.kernels import native
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, fail
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.kernels import fast
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

GROUPS = (32, 64, 128)
by_group = pytest.mark.parametrize("group_size", GROUPS)
by_scales = pytest.mark.parametrize("scales", DTYPES, ids=str)


def right(kernel, seed, outputs, inputs, group_size, dtype=mx.float32, tokens=(), expected=None):
    """Compare a kernel with the formula, for a random matrix and a random x."""
    x = normals(seed)(*tokens, inputs)
    given = matrix(seed, outputs, inputs, group_size, dtype)
    agrees(by(kernel), product64, x, *given, group_size, seed=seed, dtype=mx.float32, expected=expected)


def as_mlx(kernel, group_size, *tokens):
    """Compare with MLX's product, for a matrix that MLX has quantized."""
    draw = normals(5)
    words, scales, biases = mx.quantize(draw(6, 384), group_size, BITS)
    x = draw(*tokens, 384)
    expected = mx.quantized_matmul(x, words, scales, biases, group_size=group_size, bits=BITS)
    given = unpacked(words), scales, biases, group_size
    agrees(by(kernel), product64, x, *given, seed=5, expected=to_float64(expected))


def many_sizes(kernel, **tokens):
    """Sweep rows, groups per row and the dtype of the scales."""
    program = by(fast(kernel))
    for n in sweep(**tokens, O=300, G=131):
        group_size, narrow = n.turn(64, 32, 128), n.dtype != mx.float32
        dtype = n.dtype if narrow else n.turn(*DTYPES)
        spread = min(n.spread, 30.0) if dtype == mx.float16 else n.spread
        x = normals(n.seed)(*(n.sizes[letter] for letter in tokens), n.G * group_size)
        given = matrix(n.seed, n.O, n.G * group_size, group_size, dtype, spread=spread)
        agrees(program, product64, x, *given, group_size, seed=n, dtype=mx.float32)


# Task 1, scalar


@by_scales
@by_group
def test_task_1_scalar_formula(group_size, scales):
    right(native.matvec_scalar, 1, 5, 3 * group_size, group_size, scales)


@by_group
def test_task_1_scalar_one_group(group_size):
    right(native.matvec_scalar, 2, 3, group_size, group_size)


def test_task_1_scalar_one_row():
    right(native.matvec_scalar, 3, 1, 192, 64)


def test_task_1_scalar_one_weight():
    one_weight(native.matvec_scalar)


def test_task_1_scalar_scales_alone():
    scales_alone(native.matvec_scalar)


def test_task_1_scalar_biases_alone():
    biases_alone(native.matvec_scalar)


@by_group
def test_task_1_scalar_as_mlx(group_size):
    as_mlx(native.matvec_scalar, group_size)


def test_task_1_scalar_sweep():
    many_sizes(native.matvec_scalar)


# Task 2, SIMD


@by_scales
@by_group
def test_task_2_simd_formula(group_size, scales):
    right(native.matvec_simd, 1, 5, 3 * group_size, group_size, scales)


@by_group
def test_task_2_simd_one_group(group_size):
    """A row may have fewer words than a register."""
    right(native.matvec_simd, 2, 3, group_size, group_size)


@pytest.mark.parametrize("inputs", [96, 160, 224, 1056])
def test_task_2_simd_last_block(inputs):
    """A row may end inside a block."""
    right(native.matvec_simd, 3, 3, inputs, 32)


def test_task_2_simd_loads_registers():
    """A load reads several words: a register of 16 bytes or more, on any machine."""
    count, size = packed_loads(native.matvec_simd)
    if size < 8 * count:
        headline = f"the packed weights are read {size / max(count, 1):.0f} bytes at a time, one word after another"
        lines = ("expected  a register of words at a time", f"got       {count} loads of {size:,} bytes in all")
        raise CheckFailed(Finding(Kind.COSTS, headline, lines, "float32, x 512, q 16 x 512, group_size 64, seed 7"))


def test_task_2_simd_one_weight():
    one_weight(native.matvec_simd)


def test_task_2_simd_scales_alone():
    scales_alone(native.matvec_simd)


def test_task_2_simd_biases_alone():
    biases_alone(native.matvec_simd)


@by_group
def test_task_2_simd_as_mlx(group_size):
    as_mlx(native.matvec_simd, group_size)


def test_task_2_simd_sweep():
    many_sizes(native.matvec_simd)


# Task 3, threads


@pytest.mark.parametrize("outputs", [1, 15, 16, 17, 31, 32, 33, 100])
def test_task_3_threads_rows(outputs):
    """Fewer rows than a chunk, as many, one more."""
    right(native.matvec_threads, 1, outputs, 64, 64)


def test_task_3_threads_another_x():
    """Each call arranges its own x."""
    given = matrix(2, 1, 64, 64)
    one, other = (by(native.matvec_threads)(normals(seed)(64), *given, 64).item() for seed in (2, 3))
    if one == other:
        headline = "y is the same for two different x"
        fail(
            Kind.MEMORY, headline, "x 64, q 1 x 64, two calls", "what does the second call use that the first has left?"
        )


def test_task_3_threads_many_rows():
    """Rows for several chunks, however they are split."""
    right(native.matvec_threads, 2, 1030, 32, 32)


@by_scales
@by_group
def test_task_3_threads_formula(group_size, scales):
    right(native.matvec_threads, 3, 37, 3 * group_size, group_size, scales)


def test_task_3_threads_several_chunks():
    divides(native.matvec_threads)


def test_task_3_threads_biases_alone():
    biases_alone(native.matvec_threads)


def test_task_3_threads_sweep():
    many_sizes(native.matvec_threads)


def test_task_3_threads_again_and_again():
    """The fast build, many times: the result does not depend on which thread takes which chunk."""
    x, given = normals(4)(256), matrix(4, 333, 256, 64)
    expected = product64(*map(to_float64, (x, *given)), 64)
    by(native.matvec_threads)(x[:64], *matrix(4, 5, 64, 64), 64)  # in the checked build first
    for _ in range(50):
        again = by(fast(native.matvec_threads))(x, *given, 64)
        compare(again, expected, mx.float32, 1e-2, "float32, x 256, q 333 x 256, one call of 50, seed 4", 333)


# Task 4, several vectors


@pytest.mark.parametrize("tokens", range(1, 10))
def test_task_4_matmul_tokens(tokens):
    right(native.matmul, 1, 21, 128, 64, tokens=(tokens,))


@pytest.mark.parametrize("outputs", [1, 7, 8, 15, 16, 17, 31, 32, 33, 40])
def test_task_4_matmul_rows(outputs):
    """Full panels, and a partial last one."""
    right(native.matmul, 2, outputs, 64, 64, tokens=(3,))


@pytest.mark.parametrize("tokens", [11, 12, 13, 24, 25])
def test_task_4_matmul_tiles(tokens):
    """Tokens for several tiles, with and without a remainder."""
    right(native.matmul, 3, 33, 64, 32, tokens=(tokens,))


@by_scales
@by_group
def test_task_4_matmul_formula(group_size, scales):
    right(native.matmul, 4, 19, 3 * group_size, group_size, scales, tokens=(7,))


def test_task_4_matmul_several_chunks():
    divides(native.matmul, 2)


def test_task_4_matmul_unpacks_once():
    """A matrix is read once, however many tokens there are."""
    if (times := rows_read(native.matmul, 26)) > 1.5:
        headline = f"26 tokens read the packed weights {times:.1f} times as often as one token does"
        case = "float32, x 26 x 512, q 16 x 512, group_size 64, seed 7"
        raise CheckFailed(Finding(Kind.COSTS, headline, ("expected  a row is unpacked once for all tokens",), case))


def test_task_4_matmul_one_weight():
    one_weight(native.matmul, 2)


def test_task_4_matmul_scales_alone():
    scales_alone(native.matmul, 3)


def test_task_4_matmul_biases_alone():
    biases_alone(native.matmul, 3)


@by_group
def test_task_4_matmul_as_mlx(group_size):
    as_mlx(native.matmul, group_size, 7)


def test_task_4_matmul_sweep():
    many_sizes(native.matmul, N=140)


# Task 5, int8


def whole(seed, inputs, group_size):
    """Return an x that is exact in eight bits: integers, the largest of each group 127, times a power of two."""
    generator = np.random.default_rng(seed)
    x = generator.integers(-127, 128, (inputs // group_size, group_size)).astype(np.float32)
    x[:, generator.integers(group_size)] = 127
    return mx.array((x * 2.0 ** generator.integers(-8, 3, (len(x), 1))).reshape(-1).astype(np.float32))


@by_scales
@by_group
def test_task_5_int8_whole_numbers(group_size, scales):
    """For an x that is exact in eight bits, the result equals the product."""
    given = matrix(1, 37, 3 * group_size, group_size, scales)
    program, x = by(native.matvec_int8), whole(1, 3 * group_size, group_size)
    agrees(program, product64, x, *given, group_size, seed=1, dtype=mx.float32)


@pytest.mark.parametrize("outputs", [1, 15, 16, 17, 33, 100])
def test_task_5_int8_rows(outputs):
    agrees(by(native.matvec_int8), product64, whole(2, 64, 32), *matrix(2, outputs, 64, 32), 32, seed=2)


@pytest.mark.parametrize("inputs", [32, 96, 160, 1056])
def test_task_5_int8_last_block(inputs):
    agrees(by(native.matvec_int8), product64, whole(3, inputs, 32), *matrix(3, 3, inputs, 32), 32, seed=3)


def test_task_5_int8_several_chunks():
    divides(native.matvec_int8)


def test_task_5_int8_biases_alone():
    """The biases are multiplied by the original x, without quantization error."""
    biases_alone(native.matvec_int8)


@pytest.mark.parametrize("off", [0.25, -0.25])
def test_task_5_int8_nearest(off):
    """Values a quarter of a step above or below an integer are rounded to it, not toward zero or down."""
    generator = np.random.default_rng(5)
    integers, steps = generator.integers(-126, 127, (3, 64)).astype(np.float32), 2.0 ** np.array([[-3], [0], [2]])
    x = integers + np.float32(off)
    x[:, 7] = integers[:, 7] = 127
    x, rounded = ((each * steps).reshape(-1) for each in (x, integers))
    given = matrix(5, 5, 192, 64)
    q, scales, biases = map(to_float64, given)
    expected = product64(rounded, q, scales, 0 * biases, 64) + product64(x, 0 * q, scales, biases, 64)
    x = mx.array(x.astype(np.float32))
    agrees(by(native.matvec_int8), product64, x, *given, 64, seed=5, expected=expected)


def test_task_5_int8_zeros():
    """A group of zeros must not divide by a scale of 0."""
    x = mx.concatenate([mx.zeros(64), whole(4, 64, 64), mx.zeros(64)])
    agrees(by(native.matvec_int8), product64, x, *matrix(4, 5, 192, 64), 64, seed=4)


def test_task_5_int8_sweep():
    """For any x, each value may be off by at most half of its group's maximum over 127."""
    for n in sweep(O=300, G=131):
        group_size = n.turn(64, 32, 128)
        x = normals(n.seed)(n.G * group_size, spread=min(max(n.spread, 1e-4), 30.0))
        given = matrix(n.seed, n.O, n.G * group_size, group_size)
        xs, q, scales, biases = map(to_float64, (x, *given))
        step = np.abs(xs.reshape(n.G, group_size)).max(axis=-1) / 127
        most = (np.abs(scales) * q.reshape(n.O, n.G, group_size).sum(axis=-1) * step).sum(axis=-1) / 2
        expected = product64(xs, q, scales, biases, group_size)
        size = (np.abs(scales) * q.reshape(n.O, n.G, group_size).max(axis=-1)).max() * np.abs(xs).sum()
        case = f"float32, x {n.G * group_size}, q {n.O} x {n.G * group_size}, group_size {group_size}, seed {n.seed}"
        made = by(fast(native.matvec_int8))(x, *given, group_size)
        compare(made, expected, mx.float32, most + 1e-5 * size, case, x.size, swept=True)


# Task 6, attention for one token


def attend64(queries, keys, values, scale, *, r=exact):
    return r(softmax64(r(r(queries @ keys.T) * scale), -1, r=r) @ values)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 9, 33])
def test_task_6_attend_lengths(length):
    draw = normals(1)
    inputs = draw(3, 10), draw(length, 10), draw(length, 10)
    agrees(native.attend, attend64, *inputs, 0.4, seed=1)


@pytest.mark.parametrize("dims", [1, 4, 7, 16, 20, 64, 128])
def test_task_6_attend_dims(dims):
    draw = normals(2)
    inputs = draw(2, dims), draw(6, dims), draw(6, dims)
    agrees(native.attend, attend64, *inputs, 1 / math.sqrt(dims), seed=2)


@pytest.mark.parametrize("heads", [1, 2, 4, 5])
def test_task_6_attend_heads(heads):
    draw = normals(3)
    inputs = draw(heads, 8), draw(7, 8), draw(7, 8)
    agrees(native.attend, attend64, *inputs, 0.5, seed=3)


def test_task_6_attend_equal_scores():
    """Queries of zeros give the mean of all values."""
    draw = normals(4)
    agrees(native.attend, attend64, mx.zeros((2, 8)), draw(11, 8), draw(11, 8), 0.5, seed=4)


def test_task_6_attend_large_scores():
    """exp(300) overflows float32: subtract the largest score first."""
    draw = normals(5)
    agrees(native.attend, attend64, draw(2, 8, spread=40), draw(9, 8), draw(9, 8), 2.0, seed=5)


def test_task_6_attend_scores_far_below_zero():
    """exp(-160) is 0 in float32: the maximum of a head may itself be far below 0."""
    draw = normals(6)
    queries, keys = -20 - mx.abs(draw(3, 8)), 1 + mx.abs(draw(9, 8))
    agrees(native.attend, attend64, queries, keys, draw(9, 8), 1.0, seed=6)


def test_task_6_attend_many_scores():
    """100,000 scores: any number of heads and tokens, not only those that fit a buffer of a fixed size."""
    draw = normals(7)
    agrees(native.attend, attend64, draw(5, 2), draw(20000, 2), draw(20000, 2), 0.5, seed=7)


def test_task_6_attend_sweep():
    for n in sweep(H=20, S=1100, D=257):
        draw = normals(n.seed)
        queries, keys = draw(n.H, n.D, spread=min(n.spread, 30.0)), draw(n.S, n.D)
        agrees(fast(native.attend), attend64, queries, keys, draw(n.S, n.D), n.turn(0.3, 1.0), seed=n)
