"""Week 1, day 2, task 1: rotation angles."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.rotations import FIVE_TOKENS, sizes

from tiny_llm import positional_encoding
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import Array64, Round, exact, to_float64
from tiny_llm_course.testkit.sizes import sizes as sizes_of


def angles64(dims: int, seq_len: int, base: float, *, r: Round = exact) -> Array64:
    """Pair i rotates by base ** (-2i / dims) per position."""
    return r(np.outer(np.arange(seq_len), float(base) ** (-2 * np.arange(dims // 2) / dims)))


@pytest.mark.parametrize(
    ("dims", "seq_len", "base"), [(4, 3, 50), (6, 5, 300), (8, 3, 2), (10, 1, 300.0), (2, 4, 300), (12, 17, 10000)]
)
def test_task_1_angles_formula(dims, seq_len, base):
    agrees(positional_encoding.rotation_angles, angles64, dims, seq_len, base, seed=1, dtype=mx.float32)


def test_task_1_angles_five_tokens():
    """The angles that chapter 1.2 prints."""
    expected = np.array([[0.0, 0.0], [1.0, 0.1], [2.0, 0.2], [3.0, 0.3], [4.0, 0.4]])
    compare(positional_encoding.rotation_angles(4, 5, 100), expected, mx.float32, 1e-5, FIVE_TOKENS, 10)


@pytest.mark.parametrize("pair", [0, 1, 31, 63])
def test_task_1_angles_slow_pairs(pair):
    """Qwen3's sizes: the slowest pair rotates by a millionth, so errors are relative to the pair's largest angle."""

    def angles_of_one_pair(dims, seq_len, base, pair):
        angles = positional_encoding.rotation_angles(dims, seq_len, base)
        return angles[:, pair] if isinstance(angles, mx.array) else angles

    def formula(dims: int, seq_len: int, base: float, pair: int, *, r: Round = exact) -> Array64:
        return angles64(dims, seq_len, base, r=r)[:, pair]

    agrees(angles_of_one_pair, formula, 128, 40, 1000000, pair, seed=1, dtype=mx.float32)


def test_task_1_angles_of_many_positions():
    """Positions beyond 2048, which float16 cannot count, and beyond 256, which bfloat16 cannot."""
    agrees(positional_encoding.rotation_angles, angles64, 4, 2500, 50, seed=1, dtype=mx.float32)


def test_task_1_angles_mlx():
    """`mx.fast.rope` rotates the vector (1, 0) of a pair to (cos, sin) of its angle."""

    def direction(dims, seq_len, base):
        angles = positional_encoding.rotation_angles(dims, seq_len, base)
        return mx.stack([mx.cos(angles), mx.sin(angles)], axis=-1)

    def direction64(dims: int, seq_len: int, base: float, *, r: Round = exact) -> Array64:
        angles = angles64(dims, seq_len, base, r=r)
        return np.stack([r(np.cos(angles)), r(np.sin(angles))], axis=-1)

    ones = mx.broadcast_to(mx.array([1.0, 0.0]), (7, 3, 2)).reshape(1, 1, 7, 6)
    rotated = mx.fast.rope(ones, 6, traditional=True, base=300.0, scale=1.0, offset=0)
    expected = to_float64(rotated).reshape(7, 3, 2)
    agrees(direction, direction64, 6, 7, 300, seed=1, dtype=mx.float32, expected=expected)


def test_task_1_angles_pytorch(pytorch):
    def outer(torch, dims, seq_len, base):
        return torch.outer(torch.arange(seq_len).float(), 1.0 / base ** (torch.arange(0, dims, 2).float() / dims))

    expected = pytorch(outer, 8, 5, 300)
    agrees(positional_encoding.rotation_angles, angles64, 8, 5, 300, seed=1, dtype=mx.float32, expected=expected)


def test_task_1_angles_refuses_odd_dims():
    with raises_value_error("dims 7, seq_len 5, base 300"):
        mx.eval(positional_encoding.rotation_angles(7, 5, 300))


def test_task_1_angles_sweep():
    for n in sizes_of(P=4200, L=4200):
        base = n.turn(10000, 50, 1000000.0, 2, 0.5, 300.0)
        agrees(positional_encoding.rotation_angles, angles64, 2 * n.P, n.L, base, seed=n, dtype=mx.float32)


@property_test
@given(seq_len=st.integers(1, 40), **sizes)
def test_task_1_angles_begin_with_zero(dims, seq_len, base):
    """Position 0 is not rotated."""
    case = f"float32, dims {dims}, seq_len {seq_len}, base {base}, position 0 alone"
    first = positional_encoding.rotation_angles(dims, seq_len, base)[0]
    compare(first, np.zeros(dims // 2), mx.float32, 0.0, case, seq_len * dims)


@property_test
@given(seq_len=st.integers(2, 30), shift=st.integers(1, 30), **sizes)
def test_task_1_angles_sinusoidal_shift(dims, seq_len, shift, base):
    """Sinusoidal encodings, as in the first transformers: a shift of the position is a rotation.

    The encoding of position p + shift is that of p, each pair rotated by an angle that depends only on `shift`.
    """
    angles = positional_encoding.rotation_angles(dims, seq_len + shift, base)
    sin, cos = mx.sin(angles), mx.cos(angles)
    by = to_float64(angles)[shift]
    expected = np.stack(
        [
            to_float64(sin)[:seq_len] * np.cos(by) + to_float64(cos)[:seq_len] * np.sin(by),
            to_float64(cos)[:seq_len] * np.cos(by) - to_float64(sin)[:seq_len] * np.sin(by),
        ]
    )
    case = f"float32, dims {dims}, base {base}: sines and cosines, {seq_len} positions, against the same {shift} later"
    compare(mx.stack([sin[shift:], cos[shift:]]), expected, mx.float32, 2e-5, case, seq_len * dims)
