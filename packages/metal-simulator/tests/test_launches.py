"""What a kernel is handed: where its threads are, its arguments, shapes and strides, its template, initial values."""

import mlx.core as mx
import numpy as np
import pytest

from metal_simulator.signature import ATTRIBUTES

from .running import run

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


def test_too_many_threads():
    with pytest.raises(ValueError, match="Thread group size"):
        run("out[0] = 1;", [((1,), mx.int32)], None, (2048, 1, 1), (2048, 1, 1))


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
