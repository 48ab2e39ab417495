"""Kernels of matrices: transposed and multiplied."""

import mlx.core as mx
import numpy as np

from ..case import Case, normal

TRANSPOSE = Case(
    "transpose",
    """
    threadgroup float tile[TILE][TILE + PAD];
    uint2 in = thread_position_in_threadgroup.xy;
    uint2 corner = uint2(threadgroup_position_in_grid.x, threadgroup_position_in_grid.y) * TILE;
    tile[in.y][in.x] = x[(corner.y + in.y) * COLUMNS + corner.x + in.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[(corner.x + in.y) * ROWS + corner.y + in.x] = tile[in.x][in.y];
""",
    normal(x=(64, 32)),
    {"out": ((32, 64), mx.float32)},
    (32, 64, 1),
    (32, 32, 1),
    lambda x: x.T,
    {"TILE": 32, "PAD": 1, "ROWS": 64, "COLUMNS": 32},
)

# Sizes that are no multiple of the tile: what lies outside counts as zero.
TILED = Case(
    "tiled_matmul",
    """
    threadgroup float a_tile[16][16], b_tile[16][16];
    uint tx = thread_position_in_threadgroup.x, ty = thread_position_in_threadgroup.y;
    uint row = threadgroup_position_in_grid.y * 16 + ty, column = threadgroup_position_in_grid.x * 16 + tx;
    float sum = 0;
    for (uint k = 0; k < K; k += 16) {
        a_tile[ty][tx] = row < M && k + tx < K ? a[row * K + k + tx] : 0.0f;
        b_tile[ty][tx] = k + ty < K && column < N ? b[(k + ty) * N + column] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = 0; i < 16; ++i) {
            sum += a_tile[ty][i] * b_tile[i][tx];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (row < M && column < N) {
        out[row * N + column] = sum;
    }
""",
    normal(a=(20, 37), b=(37, 27)),
    {"out": ((20, 27), mx.float32)},
    (32, 32, 1),
    (16, 16, 1),
    np.matmul,
    {"M": 20, "N": 27, "K": 37},
    tolerance=1e-5,
)

# A thread makes 4 x 4 elements, from registers.
REGISTERS = Case(
    "register_matmul",
    """
    uint2 at = thread_position_in_grid.xy;
    float4 sums[4] = {float4(0), float4(0), float4(0), float4(0)};
    const device float4* columns = (const device float4*)b + at.x;
    for (uint k = 0; k < K; k++) {
        float4 right = columns[k * (N / 4)];
        for (uint r = 0; r < 4; r++) sums[r] += a[(at.y * 4 + r) * K + k] * right;
    }
    for (uint r = 0; r < 4; r++) ((device float4*)out)[(at.y * 4 + r) * (N / 4) + at.x] = sums[r];
""",
    normal(a=(16, 10), b=(10, 32)),
    {"out": ((16, 32), mx.float32)},
    (8, 4, 1),
    (8, 4, 1),
    np.matmul,
    {"K": 10, "N": 32},
    tolerance=1e-5,
)

SIMDGROUP = Case(
    "simdgroup_matmul",
    """
    uint row = threadgroup_position_in_grid.y * 8;
    uint column = threadgroup_position_in_grid.x * 16;
    simdgroup_float8x8 left, right, sum[2];
    for (int i = 0; i < 2; i++) sum[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint k = 0; k < K; k += 8) {
        simdgroup_load(left, a + row * K + k, K);
        for (int i = 0; i < 2; i++) {
            simdgroup_load(right, b + k * N + column + 8 * i, N);
            simdgroup_multiply_accumulate(sum[i], left, right, sum[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        simdgroup_store(sum[i], out + row * N + column + 8 * i, N);
    }
""",
    normal(a=(16, 24), b=(24, 32)),
    {"out": ((16, 32), mx.float32)},
    (64, 2, 1),
    (32, 1, 1),
    np.matmul,
    {"K": 24, "N": 32},
    tolerance=1e-5,
)

# Four SIMD-groups share tiles of halves; the right factor comes transposed.
STAGED = Case(
    "staged_matmul",
    """
    threadgroup half left[16 * 16];
    threadgroup half right[16 * 16];
    uint t = thread_index_in_threadgroup, sg = simdgroup_index_in_threadgroup;
    uint2 corner = uint2(threadgroup_position_in_grid.y, threadgroup_position_in_grid.x) * 16;
    uint2 mine = uint2(sg / 2, sg % 2) * 8;
    simdgroup_half8x8 l, r;
    simdgroup_float8x8 sum(0.0f);
    for (uint k = 0; k < K; k += 16) {
        for (uint i = t; i < 256; i += 128) {
            left[i] = a[(corner.x + i / 16) * K + k + i % 16];
            right[i] = b[(corner.y + i / 16) * K + k + i % 16];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint j = 0; j < 16; j += 8) {
            simdgroup_load(l, left + mine.x * 16 + j, 16);
            simdgroup_load(r, right + mine.y * 16 + j, 16, ulong2(0, 0), true);
            simdgroup_multiply_accumulate(sum, l, r, sum);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_store(sum, out + (corner.x + mine.x) * N + corner.y + mine.y, N);
""",
    normal(mx.float16, a=(32, 48), b=(32, 48)),
    {"out": ((32, 32), mx.float32)},
    (2 * 128, 2, 1),
    (128, 1, 1),
    lambda a, b: a @ b.T,
    {"K": 48, "N": 32},
    tolerance=1e-5,
)

# A matrix times itself, turned: both factors are the same tile.
GRAM = Case(
    "gram",
    """
    simdgroup_matrix<float, 8, 8> rows, turned, product(0);
    simdgroup_load(rows, x, 8);
    simdgroup_load(turned, x, 8, ulong2(0), true);
    simdgroup_multiply(product, rows, turned);
    simdgroup_store(product, out, 8);
""",
    normal(x=(8, 8)),
    {"out": ((8, 8), mx.float32)},
    (32, 1, 1),
    (32, 1, 1),
    lambda x: x @ x.T,
    tolerance=1e-5,
)

CASES = [TRANSPOSE, TILED, REGISTERS, SIMDGROUP, STAGED, GRAM]
