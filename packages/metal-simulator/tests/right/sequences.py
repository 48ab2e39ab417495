"""Kernels of sequences and images: attention, convolution, a cache."""

import mlx.core as mx
import numpy as np

from ..case import Case, normal


def _softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _decoded(q, k, v):
    k, v = np.repeat(k, 2, 0), np.repeat(v, 2, 0)
    return np.einsum("hs,hsd->hd", _softmax(np.einsum("hd,hsd->hs", q, k) / np.sqrt(32)), v)


# One query a head: four SIMD-groups take turns with the keys, then put together what each has found.
DECODE = Case(
    "attention_decode",
    """
    threadgroup float best[4], sums[4], parts[4][32];
    uint head = threadgroup_position_in_grid.x, lane = thread_index_in_simdgroup, sg = simdgroup_index_in_threadgroup;
    const device float* keys = k + (head / GROUP) * S * 32;
    const device float* values = v + (head / GROUP) * S * 32;
    float mine = q[head * 32 + lane] * metal::rsqrt(32.0);
    float most = -INFINITY, sum = 0, result = 0;
    for (uint s = sg; s < S; s += 4) {
        float score = simd_sum(mine * keys[s * 32 + lane]);
        float next = max(most, score);
        float keep = fast::exp(most - next), add = fast::exp(score - next);
        sum = sum * keep + add;
        result = result * keep + add * values[s * 32 + lane];
        most = next;
    }
    parts[sg][lane] = result;
    if (lane == 0) { best[sg] = most; sums[sg] = sum; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (sg == 0) {
        float top = max(max(best[0], best[1]), max(best[2], best[3]));
        float total = 0, all = 0;
        for (uint i = 0; i < 4; i++) {
            float scale = exp(best[i] - top);
            total += sums[i] * scale;
            all += parts[i][lane] * scale;
        }
        out[head * 32 + lane] = all / total;
    }
""",
    normal(q=(4, 32), k=(2, 19, 32), v=(2, 19, 32)),
    {"out": ((4, 32), mx.float32)},
    (4 * 128, 1, 1),
    (128, 1, 1),
    _decoded,
    {"S": 19, "GROUP": 2},
    tolerance=1e-5,
)


def _attended(q, k, v):
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(32)
    return _softmax(np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)) @ v


# Blocks of keys and values pass through threadgroup memory; a SIMD-group has a query, and each lane of it a key.
FLASH = Case(
    "flash_attention",
    """
    threadgroup float key[32 * 33];
    threadgroup float value[32 * 32];
    uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
    uint head = threadgroup_position_in_grid.y;
    uint row = threadgroup_position_in_grid.x * 4 + simdgroup_index_in_threadgroup;
    uint last = threadgroup_position_in_grid.x * 4 + 3;
    float query = q[(head * L + row) * 32 + lane] * 0.17677669529;
    float most = -INFINITY, sum = 0, result = 0;
    for (uint block = 0; block <= last; block += 32) {
        for (uint i = t; i < 1024; i += 128) {
            uint s = block + i / 32;
            key[i / 32 * 33 + i % 32] = s < L ? k[(head * L + s) * 32 + i % 32] : 0;
            value[i] = s < L ? v[(head * L + s) * 32 + i % 32] : 0;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float score = 0;
        for (ushort d = 0; d < 32; d++) score += simd_broadcast(query, d) * key[lane * 33 + d];
        if (block + lane > row) score = -INFINITY;
        float next = max(most, simd_max(score));
        float weight = exp(score - next), keep = exp(most - next);
        sum = sum * keep + simd_sum(weight);
        result *= keep;
        for (ushort s = 0; s < 32; s++) result += simd_shuffle(weight, s) * value[s * 32 + lane];
        most = next;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[(head * L + row) * 32 + lane] = result / sum;
""",
    normal(q=(2, 40, 32), k=(2, 40, 32), v=(2, 40, 32)),
    {"out": ((2, 40, 32), mx.float32)},
    (10 * 128, 2, 1),
    (128, 1, 1),
    _attended,
    {"L": 40},
    tolerance=1e-5,
)

# The edges of a tile are those of its neighbors.
CONVOLUTION = Case(
    "convolution",
    """
    threadgroup float tile[32 + 4];
    const int n = x_shape[0];
    int i = thread_position_in_grid.x, t = thread_position_in_threadgroup.x;
    int size = threads_per_threadgroup.x, begin = i - t - 2;
    for (int j = t; j < size + 4; j += size) {
        tile[j] = begin + j >= 0 && begin + j < n ? x[begin + j] : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float sum = 0;
    for (int j = 0; j < 5; j++) sum += tile[t + j] * w[j];
    out[i] = sum;
""",
    normal(x=(75,), w=(5,)),
    {"out": ((75,), mx.float32)},
    (75, 1, 1),
    (32, 1, 1),
    lambda x, w: np.convolve(x, w[::-1], "same"),
    tolerance=1e-5,
)


def _next_generation(cells):
    n = sum(np.roll(cells.astype(int), (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - cells
    return (n == 3) | (cells & (n == 2))


LIFE = Case(
    "life",
    """
    int x = thread_position_in_grid.x, y = thread_position_in_grid.y;
    int width = cells_shape[1], height = cells_shape[0];
    int neighbors = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx != 0 || dy != 0)
                neighbors += cells[(y + dy + height) % height * width + (x + dx + width) % width];
    bool alive = cells[y * width + x];
    out[y * width + x] = neighbors == 3 || (alive && neighbors == 2);
""",
    lambda r: {"cells": r.random((9, 13)) < 0.4},
    {"out": ((9, 13), mx.bool_)},
    (13, 9, 1),
    (8, 8, 1),
    _next_generation,
)


def _paged(pages, table, new, length):
    out = pages.copy()
    for i, row in enumerate(new):
        at = int(length) + i
        out[table[at // 4], at % 4] = row
    return out


# New rows go where the table of pages says; all else is carried over.
PAGES = Case(
    "paged_cache",
    """
    uint column = thread_position_in_grid.x, slot = thread_position_in_grid.y;
    uint page = slot / PAGE;
    T value = pages[slot * COLUMNS + column];
    for (uint i = 0; i < NEW; i++) {
        uint at = uint(length) + i;
        if (uint(table[at / PAGE]) == page && at % PAGE == slot % PAGE) value = fresh[i * COLUMNS + column];
    }
    out[slot * COLUMNS + column] = value;
""",
    lambda r: {
        "pages": r.normal(size=(6, 4, 8)).astype("f"),
        "table": np.array([4, 1, 3], np.int32),
        "fresh": r.normal(size=(5, 8)).astype("f"),
        "length": np.int32(6),
    },
    {"out": ((6, 4, 8), mx.float32)},
    (8, 24, 1),
    (8, 8, 1),
    _paged,
    {"T": mx.float32, "PAGE": 4, "COLUMNS": 8, "NEW": 5},
)

# Rows of one image, each by a quad of lanes.
QUADS = Case(
    "quad_average",
    """
    uint i = thread_position_in_grid.x;
    float mean = quad_sum(x[i]) / 4;
    float beside = quad_shuffle_xor(x[i], 1);
    out[i] = (x[i] + beside) / 2 - mean + quad_broadcast(mean, 0) * float(thread_index_in_quadgroup);
""",
    normal(x=(64,)),
    {"out": ((64,), mx.float32)},
    (64, 1, 1),
    (64, 1, 1),
    lambda x: (
        (x + x.reshape(-1, 2)[:, ::-1].reshape(-1)) / 2
        + np.repeat(x.reshape(-1, 4).mean(1), 4) * (np.tile(np.arange(4), 16) - 1)
    ),
)

CASES = [DECODE, FLASH, CONVOLUTION, LIFE, PAGES, QUADS]
