"""Kernels in which the place of an element depends on those before it."""

import mlx.core as mx
import numpy as np

from ..case import Case, normal

SCAN = Case(
    "scan",
    """
    threadgroup float totals[8];
    uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup, sg = simdgroup_index_in_threadgroup;
    float mine = t < N ? x[t] : 0.0;
    float sum = simd_prefix_inclusive_sum(mine);
    if (lane == 31) totals[sg] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (sg == 0 && lane < 8) {
        totals[lane] = simd_prefix_exclusive_sum(totals[lane]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < N) out[t] = sum + totals[sg];
""",
    normal(x=(230,)),
    {"out": ((230,), mx.float32)},
    (256, 1, 1),
    (256, 1, 1),
    np.cumsum,
    {"N": 230},
    tolerance=1e-5,
)

# Two buffers take turns, so that one barrier a step is enough.
HILLIS_STEELE = Case(
    "hillis_steele",
    """
    threadgroup int buffer[2][64];
    uint t = thread_position_in_threadgroup.x;
    uint now = 0;
    buffer[now][t] = x[t];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = 1; d < 64; d *= 2) {
        buffer[1 - now][t] = t >= d ? buffer[now][t] + buffer[now][t - d] : buffer[now][t];
        now = 1 - now;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[t] = buffer[now][t];
""",
    lambda r: {"x": r.integers(-9, 9, size=64).astype(np.int32)},
    {"out": ((64,), mx.int32)},
    (64, 1, 1),
    (64, 1, 1),
    lambda x: np.cumsum(x, dtype=np.int32),
)

HISTOGRAM = Case(
    "histogram",
    """
    threadgroup atomic_uint local[16];
    uint t = thread_position_in_threadgroup.x;
    if (t < 16) atomic_store_explicit(&local[t], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_position_in_grid.x < N) {
        atomic_fetch_add_explicit(&local[x[thread_position_in_grid.x]], 1, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 16) {
        uint mine = atomic_load_explicit(&local[t], memory_order_relaxed);
        if (mine) atomic_fetch_add_explicit(&out[t], mine, memory_order_relaxed);
    }
""",
    lambda r: {"x": r.integers(0, 16, size=300).astype(np.uint8)},
    {"out": ((16,), mx.uint32)},
    (320, 1, 1),
    (64, 1, 1),
    lambda x: np.bincount(x, minlength=16).astype(np.uint32),
    {"N": 300},
    atomic=True,
    init_value=0,
)

COMPACTION = Case(
    "compaction",
    """
    // One SIMD-group: the lanes that keep theirs count those before them.
    uint lane = thread_index_in_simdgroup;
    uint kept = 0;
    for (uint base = 0; base < 96; base += 32) {
        float v = x[base + lane];
        bool keep = v > 0.0f;
        ulong votes = ulong(simd_vote::vote_t(simd_ballot(keep)));
        if (keep) out[kept + popcount(votes & ((1ul << lane) - 1))] = v;
        kept += popcount(votes);
    }
    if (lane == 0) count[0] = kept;
""",
    normal(x=(96,)),
    {"out": ((96,), mx.float32), "count": ((1,), mx.uint32)},
    (32, 1, 1),
    (32, 1, 1),
    lambda x: (np.pad(x[x > 0], (0, (x <= 0).sum())), np.array([(x > 0).sum()], np.uint32)),
    init_value=0,
)

BITONIC = Case(
    "bitonic_sort",
    """
    threadgroup float v[128];
    uint t = thread_position_in_threadgroup.x;
    v[t] = x[t];
    for (uint size = 2; size <= 128; size <<= 1) {
        for (uint stride = size >> 1; stride > 0; stride >>= 1) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            uint other = t ^ stride;
            if (other > t) {
                bool up = (t & size) == 0;
                float a = v[t], b = v[other];
                if ((a > b) == up) { v[t] = b; v[other] = a; }
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[t] = v[t];
""",
    normal(x=(128,)),
    {"out": ((128,), mx.float32)},
    (128, 1, 1),
    (128, 1, 1),
    np.sort,
)

CASES = [SCAN, HILLIS_STEELE, HISTOGRAM, COMPACTION, BITONIC]
