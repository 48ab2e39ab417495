"""Kernels in which threads make one number of many."""

import mlx.core as mx
import numpy as np

from ..case import EPSILON, Case, normal

ROW_SUM = Case(
    "row_sum",
    """
    uint row = threadgroup_position_in_grid.x * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup;
    if (row >= ROWS) return;  // the whole SIMD-group leaves
    float sum = 0;
    for (uint i = thread_index_in_simdgroup; i < COLUMNS; i += threads_per_simdgroup) {
        sum += x[row * COLUMNS + i];
    }
    sum = simd_sum(sum);
    if (thread_index_in_simdgroup == 0) {
        out[row] = sum;
    }
""",
    normal(x=(7, 77)),
    {"out": ((7,), mx.float32)},
    (256, 1, 1),
    (128, 1, 1),
    lambda x: x.sum(1),
    {"ROWS": 7, "COLUMNS": 77},
)

TREE = Case(
    "tree_sum",
    """
    threadgroup float partial[256];
    uint t = thread_position_in_threadgroup.x;
    partial[t] = x[thread_position_in_grid.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint step = threads_per_threadgroup.x / 2; step > 0; step /= 2) {
        if (t < step) {
            partial[t] += partial[t + step];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (t == 0) out[threadgroup_position_in_grid.x] = partial[0];
""",
    normal(x=(1024,)),
    {"out": ((4,), mx.float32)},
    (1024, 1, 1),
    (256, 1, 1),
    lambda x: x.reshape(4, 256).sum(1),
)

RMS_NORM = [
    Case(
        f"rms_norm_{name}",
        """
    threadgroup float sums[32];
    uint row = threadgroup_position_in_grid.x;
    uint t = thread_position_in_threadgroup.x;
    uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup;
    float sum = 0;
    for (uint i = t; i < E; i += threads_per_threadgroup.x) {
        float v = float(x[row * E + i]);
        sum += v * v;
    }
    sum = simd_sum(sum);
    if (lane == 0) sums[group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(lane < simdgroups_per_threadgroup ? sums[lane] : 0.0f);
    float scale = metal::rsqrt(sum / E + 1e-5f);
    for (uint i = t; i < E; i += threads_per_threadgroup.x) {
        out[row * E + i] = T(float(x[row * E + i]) * scale * float(w[i]));
    }
""",
        normal(dtype, x=(3, 200), w=(200,)),
        {"out": ((3, 200), dtype)},
        (3 * 96, 1, 1),
        (96, 1, 1),
        lambda x, w: x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * w,
        {"T": dtype, "E": 200},
        tolerance=EPSILON[dtype],
    )
    for name, dtype in (("float", mx.float32), ("bfloat", mx.bfloat16))
]

# The mean and the spread of two halves make those of the whole.
LAYER_NORM = Case(
    "layer_norm",
    """
    uint row = threadgroup_position_in_grid.x, lane = thread_index_in_simdgroup;
    Moments m = {0, 0, 0};
    for (uint i = lane; i < E; i += 32) m = merged(m, Moments{1.0f, x[row * E + i], 0.0f});
    for (ushort step = 16; step > 0; step >>= 1) {
        Moments other = {simd_shuffle_xor(m.count, step), simd_shuffle_xor(m.mean, step), simd_shuffle_xor(m.m2, step)};
        m = merged(m, other);
    }
    for (uint i = lane; i < E; i += 32) out[row * E + i] = (x[row * E + i] - m.mean) * rsqrt(m.m2 / m.count + 1e-5);
""",
    normal(x=(4, 70)),
    {"out": ((4, 70), mx.float32)},
    (128, 1, 1),
    (32, 1, 1),
    lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    {"E": 70},
    header="""
#include <metal_stdlib>
using namespace metal;

struct Moments { float count, mean, m2; };

inline Moments merged(thread const Moments& a, thread const Moments& b) {
    float n = a.count + b.count;
    if (n == 0) return a;
    float delta = b.mean - a.mean;
    return {n, a.mean + delta * b.count / n, a.m2 + b.m2 + delta * delta * a.count * b.count / n};
}
""",
    tolerance=1e-5,
)

SOFTMAX = Case(
    "softmax",
    """
    const uint row = thread_position_in_grid.y, lane = thread_index_in_simdgroup;
    const device float* from = x + row * N;
    float largest = -INFINITY, sum = 0;
    for (uint i = lane; i < N; i += 32) {
        float before = largest;
        largest = metal::max(largest, from[i]);
        sum = sum * metal::fast::exp(before - largest) + metal::fast::exp(from[i] - largest);
    }
    float most = simd_max(largest);
    sum = simd_sum(sum * exp(largest - most));
    for (uint i = lane; i < N; i += 32) out[row * N + i] = exp(from[i] - most) / sum;
""",
    normal(x=(5, 45)),
    {"out": ((5, 45), mx.float32)},
    (32, 5, 1),
    (32, 1, 1),
    lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    {"N": 45},
)

ARGMAX = Case(
    "argmax",
    """
    threadgroup float best_value[8];
    threadgroup uint best_index[8];
    uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup, sg = simdgroup_index_in_threadgroup;
    float value = -INFINITY;
    uint index = 0;
    for (uint i = t; i < uint(x_shape[0]); i += 256) if (x[i] > value) { value = x[i]; index = i; }
    for (uint d = 16; d > 0; d /= 2) {
        float v = simd_shuffle_down(value, d);
        uint j = simd_shuffle_down(index, d);
        if (v > value || (v == value && j < index)) { value = v; index = j; }
    }
    if (lane == 0) { best_value[sg] = value; best_index[sg] = index; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t == 0) {
        for (uint i = 1; i < 8; i++) {
            if (best_value[i] > value) { value = best_value[i]; index = best_index[i]; }
        }
        out[0] = index;
    }
""",
    normal(x=(3000,)),
    {"out": ((1,), mx.uint32)},
    (256, 1, 1),
    (256, 1, 1),
    lambda x: np.array([x.argmax()], np.uint32),
)

CASES = [ROW_SUM, TREE, *RMS_NORM, LAYER_NORM, SOFTMAX, ARGMAX]
