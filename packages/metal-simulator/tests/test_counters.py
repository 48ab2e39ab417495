"""What a kernel has moved is counted, the same on every machine."""

import mlx.core as mx
import pytest

from metal_simulator import Counters, metal_kernel


def counters(source: str, size: int = 32) -> Counters:
    kernel = metal_kernel("k", ["x"], ["out"], source)
    x = mx.zeros((32 * size,))
    kernel(inputs=[x], grid=(size, 1, 1), threadgroup=(size, 1, 1), output_shapes=[(size,)], output_dtypes=[mx.float32])
    assert kernel.counters is not None
    return kernel.counters


def test_counters():
    near = counters("uint i = thread_position_in_grid.x; out[i] = x[i];")
    assert (near.device_bytes_read, near.device_bytes_written, near.device_bytes) == (128, 128, 256)
    assert (near.threads, near.threadgroups, near.device_accesses, near.device_transactions) == (32, 1, 2, 4)
    far = counters("uint i = thread_position_in_grid.x; out[i] = x[i * 32];")
    assert (far.device_bytes, far.device_transactions) == (256, 34)
    same = counters("uint i = thread_position_in_grid.x; out[i] = x[0];")
    assert same.device_transactions == 3
    wide = counters("uint i = thread_position_in_grid.x; out[i] = ((const device float4*)x)[i].x;")
    assert wide.device_transactions <= 10


def test_matrix_products():
    """Products of matrices count, other operations of a SIMD-group do not."""
    found = counters("""
        simdgroup_float8x8 a, sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        simdgroup_load(a, x);
        for (int i = 0; i < 3; ++i) simdgroup_multiply_accumulate(sum, a, a, sum);
        out[thread_position_in_grid.x] = simd_sum(1.0f);
    """)
    assert (found.matrix_products, found.simd_operations) == (3, 5)


@pytest.mark.parametrize(("stride", "conflicts"), [(1, 0), (2, 1), (32, 31), (33, 0)])
def test_bank_conflicts(stride: int, conflicts: int):
    source = f"""
        threadgroup float t[{32 * stride}];
        uint i = thread_position_in_grid.x;
        t[i * {stride}] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[i] = simd_sum(t[i * {stride}]);
    """
    found = counters(source)
    assert found.bank_conflicts == 2 * conflicts
    assert (found.threadgroup_accesses, found.barriers, found.simd_operations) == (2, 1, 1)
    assert (found.threadgroup_bytes_read, found.threadgroup_memory) == (128, 128 * stride)
