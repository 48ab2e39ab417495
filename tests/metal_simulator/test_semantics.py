"""What a kernel is handed, and what its operations give, as MLX and Metal have it."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from metal_simulator import KernelFault, metal_kernel
from metal_simulator.signature import ATTRIBUTES


def run(
    source: str,
    outputs: list[tuple[tuple[int, ...], mx.Dtype]],
    inputs: dict[str, Any] | None = None,
    grid: tuple[int, int, int] = (32, 1, 1),
    threadgroup: tuple[int, int, int] = (32, 1, 1),
    **more: Any,
) -> list[np.ndarray]:
    make = {key: more.pop(key) for key in ("header", "ensure_row_contiguous", "atomic_outputs") if key in more}
    names = ["out", "more", "rest"][: len(outputs)]
    kernel = metal_kernel("k", list(inputs or {}), names, source, **make)
    made = kernel(
        inputs=list((inputs or {}).values()),
        grid=grid,
        threadgroup=threadgroup,
        output_shapes=[shape for shape, _ in outputs],
        output_dtypes=[dtype for _, dtype in outputs],
        **more,
    )
    assert [a.dtype for a in made] == [dtype for _, dtype in outputs]
    return [np.array(a.astype(mx.float32) if a.dtype == mx.bfloat16 else a) for a in made]


THREE = [name for name, (kind, _) in ATTRIBUTES.items() if kind == "uint3" and name != "grid_origin"]
ONE = [name for name, (kind, _) in ATTRIBUTES.items() if kind == "uint"]


def test_a_thread_knows_where_it_is():
    grid, size = (10, 3, 2), (4, 2, 2)
    source = "uint i = (thread_position_in_grid.z * 3 + thread_position_in_grid.y) * 10 + thread_position_in_grid.x;"
    for i, name in enumerate(THREE):
        source += f"\n for (int d = 0; d < 3; d++) out[(i * {len(THREE)} + {i}) * 3 + d] = {name}[d];"
    for i, name in enumerate(ONE):
        source += f"\n more[i * {len(ONE)} + {i}] = {name};"
    three, one = run(source, [((60, len(THREE), 3), mx.uint32), ((60, len(ONE)), mx.uint32)], None, grid, size)
    for i in range(60):
        at = np.array([i % 10, i // 10 % 3, i // 30])
        group, inside = at // size, at % size
        here = np.minimum(size, grid - group * size)
        index, count = inside @ [1, here[0], here[0] * here[1]], here.prod()
        wanted = {
            "dispatch_threads_per_threadgroup": size,
            "grid_size": grid,
            "thread_position_in_grid": at,
            "thread_position_in_threadgroup": inside,
            "threadgroup_position_in_grid": group,
            "threadgroups_per_grid": (3, 2, 1),
            "threads_per_grid": grid,
            "threads_per_threadgroup": here,
            "dispatch_quadgroups_per_threadgroup": 4,
            "dispatch_simdgroups_per_threadgroup": 1,
            "quadgroup_index_in_threadgroup": index // 4,
            "quadgroups_per_threadgroup": -(-count // 4),
            "simdgroup_index_in_threadgroup": index // 32,
            "simdgroups_per_threadgroup": -(-count // 32),
            "thread_execution_width": 32,
            "thread_index_in_quadgroup": index % 4,
            "thread_index_in_simdgroup": index % 32,
            "thread_index_in_threadgroup": index,
            "threads_per_simdgroup": 32,
        }
        for j, name in enumerate(THREE):
            assert tuple(three[i, j]) == tuple(wanted[name]), name
        for j, name in enumerate(ONE):
            assert one[i, j] == wanted[name], name


def test_a_threadgroup_is_no_larger_than_the_grid():
    (out,) = run(
        "out[thread_position_in_grid.x] = dispatch_threads_per_threadgroup.x;", [((3,), mx.int32)], None, (3, 1, 1)
    )
    assert out.tolist() == [3, 3, 3]


@pytest.mark.parametrize("contiguous", [True, False])
def test_shapes_and_strides(contiguous: bool):
    x = mx.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)
    source = """
        for (int d = 0; d < x_ndim; d++) { out[d] = x_shape[d]; out[3 + d] = int(x_strides[d]); }
        out[6] = x[x_strides[0] + 2 * x_strides[2]];
    """
    (out,) = run(source, [((7,), mx.int32)], {"x": x}, (1, 1, 1), ensure_row_contiguous=contiguous)
    assert out[:3].tolist() == [4, 2, 3]
    assert out[3:6].tolist() == ([6, 3, 1] if contiguous else [1, 12, 4])
    assert out[6] == x[1, 0, 2].item()


def test_an_input_without_dimensions_is_a_value_and_a_small_one_a_pointer():
    inputs = {"a": 2.5, "b": mx.array([3, 4], mx.int32), "c": True}
    (out,) = run("out[0] = a + b[1] + c;", [((1,), mx.float32)], inputs, (1, 1, 1))
    assert out.tolist() == [7.5]


def test_template_has_types_numbers_and_truths():
    source = """
        if constexpr (WIDE) { out[0] = T(x[0]) / N; } else { out[0] = 0; }
        typename metal::conditional_t<WIDE, vec<T, 4>, T> v = T(2);
        out[1] = float(v[1]) + sizeof(v);
    """
    template = [("T", mx.bfloat16), ("N", -4), ("WIDE", True)]
    (out,) = run(source, [((2,), mx.float32)], {"x": mx.array([1.0])}, (1, 1, 1), template=template)
    assert out.tolist() == [-0.25, 10.0]


def test_initial_values():
    (out,) = run("out[1] += 2;", [((3,), mx.float16)], None, (1, 1, 1), init_value=1.5)
    assert out.tolist() == [1.5, 3.5, 1.5]


def test_atomic_outputs():
    source = """
        uint i = thread_position_in_grid.x;
        atomic_fetch_add_explicit(&out[i % 3], 0.5f, memory_order_relaxed);
        atomic_fetch_max_explicit(&more[0], int(i), memory_order_relaxed);
        int seen = atomic_load_explicit(&rest[0], memory_order_relaxed);
        constexpr auto order = memory_order_relaxed;
        while (!atomic_compare_exchange_weak_explicit(&rest[0], &seen, seen + 2, order, order));
    """
    outputs = [((3,), mx.float32), ((1,), mx.int32), ((1,), mx.int32)]
    out, most, rest = run(source, outputs, None, (60, 1, 1), (20, 1, 1), init_value=0, atomic_outputs=True)
    assert (out.tolist(), most.tolist(), rest.tolist()) == ([10, 10, 10], [59], [120])


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_halves_are_rounded_as_mlx_rounds_them(dtype: mx.Dtype):
    x = mx.array(np.random.default_rng(1).normal(size=(2, 64)).astype("f")).astype(dtype)
    source = """
        uint i = thread_position_in_grid.x;
        T a = x[i], b = x[64 + i];
        T product = a * b; T sum = a + b; T ratio = a / b; T root = metal::sqrt(metal::abs(a));
        out[i] = product; out[64 + i] = sum; out[128 + i] = ratio; out[192 + i] = root;
    """
    (out,) = run(source, [((4, 64), dtype)], {"x": x}, (64, 1, 1), template=[("T", dtype)])
    a, b = x[0], x[1]
    wide = [a.astype(mx.float32), b.astype(mx.float32)]
    wanted = [wide[0] * wide[1], wide[0] + wide[1], wide[0] / wide[1], mx.sqrt(mx.abs(wide[0]))]
    for got, one in zip(out, wanted, strict=True):
        assert got.tolist() == one.astype(dtype).tolist()


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


def test_vectors():
    source = """
        float4 v = float4(1, 2, 3, 4), w = 2;
        v.xy = v.zw; v.w *= 2; v += float4(0, 1, 0, 1) * w;
        for (int i = 0; i < 4; i++) out[i] = v[i];
        out[4] = dot(v, w); out[5] = float3(v.xyz).z; out[6] = length(float2(3, 4)); out[7] = select(w, v, v > w).z;
        out[8] = float(any(v == 3.0f)) + 2 * float(all(v > 3.0f));
        out[9] = float(sizeof(float3) + sizeof(packed_float3));
        uchar4 b = as_type<uchar4>(0x04030201u); out[10] = b.x + 10 * b.w;
        out[11] = clamp(v, float4(3.5), float4(5)).y;
        out[12] = fma(2.0f, 3.0f, 4.0f) + mix(0.0f, 8.0f, 0.25f); out[13] = half4(v).z;
        out[14] = ceildiv(7, 2); out[15] = 0;
    """
    (out,) = run(source, [((16,), mx.float32)], None, (1, 1, 1))
    assert out.tolist() == [3, 6, 3, 10, 44, 3, 5, 3, 1, 28, 41, 5, 12, 3, 4, 0]


def test_constants_are_floats_and_tables_can_be_read():
    header = "constant float table[3] = {0.1, 1e-1, .1};"
    source = "out[0] = table[0] == table[1] && table[1] == table[2] && sizeof(0.5) == 4;"
    (out,) = run(source, [((1,), mx.bool_)], None, (1, 1, 1), header=header)
    assert out.tolist() == [True]


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


def test_too_many_threads():
    with pytest.raises(ValueError, match="Thread group size"):
        run("out[0] = 1;", [((1,), mx.int32)], None, (2048, 1, 1), (2048, 1, 1))
