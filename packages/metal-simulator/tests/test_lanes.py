"""What the threads of a SIMD-group give each other, and what they may do together."""

import mlx.core as mx
import numpy as np
import pytest

from metal_simulator import KernelFault

from .running import run

# An operation of lane l whose value is v = 10 * l + 1, and what each lane must get.
LANES = np.arange(32)
V = 10 * LANES + 1
OPERATIONS = {
    "simd_sum(v)": np.full(32, V.sum()),
    "simd_max(v)": np.full(32, 311),
    "simd_min(v)": np.full(32, 1),
    "simd_and(v | 64)": np.full(32, np.bitwise_and.reduce(V | 64)),
    "simd_or(v)": np.full(32, np.bitwise_or.reduce(V)),
    "simd_xor(v)": np.full(32, np.bitwise_xor.reduce(V)),
    "simd_product(l % 2 + 1)": np.full(32, 2**16),
    "simd_prefix_inclusive_sum(v)": np.cumsum(V),
    "simd_prefix_exclusive_sum(v)": np.cumsum(V) - V,
    "simd_shuffle(v, 31 - l)": V[::-1],
    "simd_shuffle_xor(v, 5)": V[LANES ^ 5],
    "simd_shuffle_down(v, 3)": np.append(V[3:], V[29:]),
    "simd_shuffle_up(v, 3)": np.append(V[:3], V[:29]),
    "simd_shuffle_rotate_down(v, 3)": np.roll(V, -3),
    "simd_shuffle_rotate_up(v, 3)": np.roll(V, 3),
    "simd_shuffle_and_fill_up(v, -l, 3)": np.append(-LANES[29:], V[:29]),
    "simd_shuffle_and_fill_down(v, -l, 3)": np.append(V[3:], -LANES[:3]),
    "simd_broadcast(v, 7)": np.full(32, 71),
    "simd_broadcast_first(v)": np.full(32, 1),
    "int(simd_any(l == 4)) + 2 * int(simd_all(l < 32)) + 4 * int(simd_all(l < 31))": np.full(32, 3),
    "int(ulong(simd_vote::vote_t(simd_ballot(l < 5))))": np.full(32, 31),
    "quad_sum(v)": np.repeat(V.reshape(8, 4).sum(1), 4),
    "quad_max(v)": np.repeat(V.reshape(8, 4).max(1), 4),
    "quad_broadcast(v, 2)": np.repeat(V[2::4], 4),
    "quad_shuffle_xor(v, 2)": V[LANES ^ 2],
}


def test_operations_of_a_simdgroup():
    source = "int l = thread_index_in_simdgroup, v = 10 * l + 1;"
    source += "".join(f"\nout[{i * 32} + l] = {text};" for i, text in enumerate(OPERATIONS))
    (out,) = run(source, [((len(OPERATIONS), 32), mx.int32)])
    for got, (text, wanted) in zip(out, OPERATIONS.items(), strict=True):
        assert got.tolist() == wanted.tolist(), text


def test_lanes_that_part_ways_meet_again():
    source = """
        uint l = thread_index_in_simdgroup;
        int a;
        if (l < 10) { a = simd_sum(1); }
        else if (l % 2) { a = simd_sum(100); }
        else { a = -1; }
        int b = 0;
        for (uint i = l; i < 40; i += 8) b += simd_sum(1);
        out[l] = a;
        more[l] = b * 1000 + simd_sum(1);
    """
    a, b = run(source, [((32,), mx.int32), ((32,), mx.int32)])
    assert a.tolist() == [10] * 10 + [1100 if lane % 2 else -1 for lane in range(10, 32)]
    loops = [5 if lane < 8 else 4 if lane < 16 else 3 if lane < 24 else 2 for lane in range(32)]
    lanes_of_turn = [32, 32, 24, 16, 8]
    assert b.tolist() == [sum(lanes_of_turn[:n]) * 1000 + 32 for n in loops]


def test_writing_the_same_value_together_is_no_race():
    source = """
        threadgroup int found;
        found = 7;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[thread_position_in_grid.x] = found;
    """
    (out,) = run(source, [((64,), mx.int32)], None, (64, 1, 1), (64, 1, 1))
    assert set(out.tolist()) == {7}
    with pytest.raises(KernelFault, match="a race"):
        run(source.replace("= 7", "= thread_position_in_grid.x"), [((64,), mx.int32)], None, (64, 1, 1), (64, 1, 1))
