"""Kernels of a matrix times a vector: in parts, with quantized weights, sparse."""

from itertools import pairwise

import mlx.core as mx
import numpy as np

from ..case import EPSILON, Case, normal

# The parts of a long sum, added up by atomic operations: in any order.
SPLIT_K = Case(
    "split_k",
    """
    uint row = thread_position_in_grid.x, part = thread_position_in_grid.y;
    float sum = 0;
    for (uint k = part * K / PARTS; k < (part + 1) * K / PARTS; k++) sum += w[row * K + k] * x[k];
    atomic_fetch_add_explicit(&out[row], sum, memory_order_relaxed);
""",
    normal(w=(24, 50), x=(50,)),
    {"out": ((24,), mx.float32)},
    (24, 4, 1),
    (8, 2, 1),
    np.matmul,
    {"K": 50, "PARTS": 4},
    atomic=True,
    init_value=0.0,
    tolerance=1e-5,
)


def _quantized(bits: int, dtype: mx.Dtype):
    def arrays(r: np.random.Generator) -> dict[str, mx.array]:
        w = mx.array(r.normal(size=(12, 128)).astype("f")).astype(dtype)
        packed, scales, biases = mx.quantize(w, 64, bits)
        return {
            "w": packed,
            "scales": scales,
            "biases": biases,
            "x": mx.array(r.normal(size=128).astype("f")).astype(dtype),
        }

    return arrays


def _dequantized(bits: int):
    def expected(w, scales, biases, x):
        each = 32 // bits
        codes = (w[:, :, None] >> (bits * np.arange(each, dtype=np.uint32))) & (2**bits - 1)
        whole = codes.reshape(len(w), -1) * np.repeat(scales, 64, 1) + np.repeat(biases, 64, 1)
        return whole @ x

    return expected


QMV = Case(
    "q4_matvec",
    """
    uint row = threadgroup_position_in_grid.x * 4 + simdgroup_index_in_threadgroup;
    uint lane = thread_index_in_simdgroup;
    const device uint32_t* codes = w + row * (K / 8);
    float sum = 0;
    for (uint p = lane; p < K / 8; p += 32) {
        uint32_t packed = codes[p];
        float dot = 0, total = 0;
        for (uint i = 0; i < 8; i++) {
            float v = x[p * 8 + i];
            dot += v * float((packed >> (4 * i)) & 15);
            total += v;
        }
        uint group = row * (K / 64) + p / 8;
        sum += float(scales[group]) * dot + float(biases[group]) * total;
    }
    sum = simd_sum(sum);
    if (simd_is_first()) out[row] = T(sum);
""",
    _quantized(4, mx.bfloat16),
    {"out": ((12,), mx.bfloat16)},
    (3 * 128, 1, 1),
    (128, 1, 1),
    _dequantized(4),
    {"T": mx.bfloat16, "K": 128},
    tolerance=EPSILON[mx.bfloat16],
)

Q8 = Case(
    "q8_matvec",
    """
    uint row = thread_position_in_grid.x;
    const device uchar4* codes = (const device uchar4*)(w + row * (K / 4));
    float sum = 0;
    for (uint g = 0; g < K / 64; g++) {
        float4 dots = 0;
        float total = 0;
        for (uint i = g * 16; i < (g + 1) * 16; i++) {
            float4 v = ((const device float4*)x)[i];
            dots += float4(codes[i]) * v;
            total += v.x + v.y + v.z + v.w;
        }
        sum += scales[row * (K / 64) + g] * (dots.x + dots.y + dots.z + dots.w) + biases[row * (K / 64) + g] * total;
    }
    out[row] = sum;
""",
    _quantized(8, mx.float32),
    {"out": ((12,), mx.float32)},
    (12, 1, 1),
    (32, 1, 1),
    _dequantized(8),
    {"K": 128},
    tolerance=1e-5,
)


def _sparse(r: np.random.Generator) -> dict[str, np.ndarray]:
    dense = np.where(r.random((9, 14)) < 0.3, r.normal(size=(9, 14)), 0).astype("f")
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(10)).astype(np.int32)
    return {
        "values": dense[rows, columns],
        "columns": columns.astype(np.int32),
        "starts": starts,
        "x": r.normal(size=14).astype("f"),
    }


def _sparse_product(values, columns, starts, x):
    products = np.append(values * x[columns], 0)
    return np.array([products[a:b].sum() for a, b in pairwise(starts)])


SPARSE = Case(
    "csr_matvec",
    """
    uint row = thread_position_in_grid.x;
    float sum = 0.f;
    for (int i = starts[row], end = starts[row + 1]; i != end; ++i) sum = fma(values[i], x[columns[i]], sum);
    out[row] = sum;
""",
    _sparse,
    {"out": ((9,), mx.float32)},
    (9, 1, 1),
    (16, 1, 1),
    _sparse_product,
    tolerance=1e-5,
)

CASES = [SPLIT_K, QMV, Q8, SPARSE]
