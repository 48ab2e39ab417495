"""Kernels in which a thread makes its own elements."""

import mlx.core as mx
import numpy as np

from ..case import EPSILON, Case, normal

AXPY = Case(
    "axpy",
    """
    uint i = thread_position_in_grid.x;
    if (i >= x_shape[0]) {
        return;
    }
    out[i] = alpha * x[i] + y[i];
""",
    lambda r: {"x": r.normal(size=100).astype("f"), "y": r.normal(size=100).astype("f"), "alpha": np.float32(1.5)},
    {"out": ((100,), mx.float32)},
    (128, 1, 1),
    (32, 1, 1),
    lambda x, y, alpha: alpha * x + y,
)

GELU = [
    Case(
        f"gelu_{name}",
        """
    uint i = thread_position_in_grid.x;
    float v = float(x[i]);
    float inner = 0.7978845608 * (v + 0.044715 * v * v * v);
    out[i] = T(0.5 * v * (1.0 + metal::precise::tanh(inner)));
""",
        normal(dtype, x=(7, 9)),
        {"out": ((7, 9), dtype)},
        (63, 1, 1),
        (64, 1, 1),
        lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
        {"T": dtype},
        tolerance=EPSILON[dtype],
    )
    for name, dtype in (("float", mx.float32), ("half", mx.float16), ("bfloat", mx.bfloat16))
]

STRIDED = Case(
    "strided",
    """
        uint elem = thread_position_in_grid.x;
        // Both inputs lie in memory as they please.
        auto a_at = elem_to_loc(elem, a_shape, a_strides, a_ndim);
        auto b_at = elem_to_loc(elem, b_shape, b_strides, b_ndim);
        out[elem] = a[a_at] - b[b_at];
""",
    lambda r: {
        "a": mx.array(r.normal(size=(6, 5, 4)).astype("f")).transpose(2, 0, 1),
        "b": mx.array(r.normal(size=(8, 6, 5)).astype("f"))[::-2],
    },
    {"out": ((4, 6, 5), mx.float32)},
    (120, 1, 1),
    (50, 1, 1),
    lambda a, b: a - b,
    contiguous=False,
)

BIAS = Case(
    "bias",
    """
    uint2 at = thread_position_in_grid.xy;
    uint columns = threads_per_grid.x;
    out[at.y * columns + at.x] = max(x[at.y * columns + at.x] + bias[at.x], 0.0f);
""",
    normal(x=(6, 10), bias=(10,)),
    {"out": ((6, 10), mx.float32)},
    (10, 6, 1),
    (4, 4, 1),
    lambda x, bias: np.maximum(x + bias, 0),
)

SWIGLU = Case(
    "swiglu",
    """
    using V = vec<T, 4>;
    uint i = thread_position_in_grid.x;
    float4 g = float4(((const device V*)gate)[i]);
    float4 u = float4(((const device V*)up)[i]);
    ((device V*)out)[i] = V(g / (1.0f + exp(-g)) * u);
""",
    normal(mx.float16, gate=(5, 16), up=(5, 16)),
    {"out": ((5, 16), mx.float16)},
    (20, 1, 1),
    (8, 1, 1),
    lambda gate, up: gate / (1 + np.exp(-gate)) * up,
    {"T": mx.float16},
    tolerance=EPSILON[mx.float16],
)


def _rotated(x: np.ndarray) -> np.ndarray:
    angle = np.arange(6)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    a, b = x[..., :8], x[..., 8:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


ROPE = Case(
    "rope",
    """
    uint pair = thread_position_in_grid.x, token = thread_position_in_grid.y, head = thread_position_in_grid.z;
    uint half_size = D / 2;
    float angle = float(token) * metal::pow(10000.0, -float(pair) / float(half_size));
    float c, s = sincos(angle, c);
    const device float* from = x + (head * L + token) * D;
    device float* to = out + (head * L + token) * D;
    float a = from[pair], b = from[pair + half_size];
    to[pair] = a * c - b * s;
    to[pair + half_size] = a * s + b * c;
""",
    normal(x=(3, 6, 16)),
    {"out": ((3, 6, 16), mx.float32)},
    (8, 6, 3),
    (8, 2, 2),
    _rotated,
    {"L": 6, "D": 16},
    tolerance=1e-5,
)

GATHER = Case(
    "gather",
    """
    uint column = thread_position_in_grid.x, row = thread_position_in_grid.y;
    int wanted = ids[row];
    out[row * columns + column] = table[wanted * columns + column];
""",
    lambda r: {
        "table": r.normal(size=(11, 24)).astype("f"),
        "ids": r.integers(0, 11, size=9).astype(np.int32),
        "columns": np.uint32(24),
    },
    {"out": ((9, 24), mx.float32)},
    (24, 9, 1),
    (24, 1, 1),
    lambda table, ids, columns: table[ids],
)


def _shuffled(seed: np.ndarray) -> np.ndarray:
    state = (seed ^ 0x9E3779B9).astype(np.uint32)
    with np.errstate(over="ignore"):
        for _ in range(4):
            state ^= state << np.uint32(13)
            state ^= state >> np.uint32(17)
            state ^= state << np.uint32(5)
    return state


RANDOM = Case(
    "xorshift",
    """
    uint state = seed[thread_position_in_grid.x] ^ 0x9E3779B9u;
    #pragma unroll
    for (int turn = 0; turn < 4; ++turn) { state ^= state << 13; state ^= state >> 17; state ^= state << 5; }
    out[thread_position_in_grid.x] = state;
""",
    lambda r: {"seed": r.integers(0, 2**32, size=33, dtype=np.uint32)},
    {"out": ((33,), mx.uint32)},
    (33, 1, 1),
    (256, 1, 1),
    _shuffled,
)


def _escape(size: int = 24) -> np.ndarray:
    """Steps until a point has gone, in float32 as the kernel does it: at the edge they depend on the last bit."""
    along = np.arange(size).astype("f") * np.float32(3) / np.float32(size)
    cx, cy = np.meshgrid(np.float32(-2) + along, np.float32(-1.5) + along)
    x, y, steps = np.zeros_like(cx), np.zeros_like(cy), np.zeros((size, size), np.int32)
    for _ in range(40):
        stays = x * x + y * y <= 4
        new_x, new_y = x * x - y * y + cx, np.float32(2) * x * y + cy
        x, y = np.where(stays, new_x, x), np.where(stays, new_y, y)
        steps += stays
    return steps


# Lanes leave the loop at different times, and all of them meet behind it.
MANDELBROT = Case(
    "mandelbrot",
    """
    uint2 at = thread_position_in_grid.xy;
    float2 c = float2(-2.0f, -1.5f) + 3.0f * float2(at) / float(SIZE), z = 0;
    int n = 0;
    while (dot(z, z) <= 4.0f && n < 40) {
        z = float2(z.x * z.x - z.y * z.y, 2.0f * z.x * z.y) + c;
        n++;
    }
    steps[at.y * SIZE + at.x] = n;
    int longest = simd_max(n);
    if (simd_is_first()) {
        uint group = threadgroup_position_in_grid.y * threadgroups_per_grid.x + threadgroup_position_in_grid.x;
        longest_of[group * simdgroups_per_threadgroup + simdgroup_index_in_threadgroup] = longest;
    }
""",
    lambda r: {},
    {"steps": ((24, 24), mx.int32), "longest_of": ((18,), mx.int32)},
    (24, 24, 1),
    (8, 8, 1),
    lambda: (_escape(), _escape().reshape(3, 2, 4, 3, 8).transpose(0, 3, 1, 2, 4).reshape(18, -1).max(1)),
    {"SIZE": 24},
)

CASES = [AXPY, *GELU, STRIDED, BIAS, SWIGLU, ROPE, GATHER, RANDOM, MANDELBROT]
