"""How each kernel of the README's gallery is launched, and the change that mends it."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

X = np.random.default_rng(3).normal(size=64).astype("f")
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
E = np.exp(X - X.max())


@dataclass(frozen=True)
class Shown:
    """`expected` is the output after each `old` text has been replaced by a `new` one."""

    buffers: list[Any]
    threads: int
    changes: dict[str, str]
    expected: Any
    threadgroup: int = 64


SHOWN = {
    "sample": Shown(
        [X[:8], np.array([-0.25, 0.5, 7.75], "f"), ((3,), mx.float32), 8],
        3,
        {
            "row[left] * (left >= 0)": "left >= 0 ? row[left] : 0.0f",
            "row[left + 1] * (left + 1 < int(width))": "left + 1 < int(width) ? row[left + 1] : 0.0f",
        },
        [0.75 * X[0], (X[0] + X[1]) / 2, 0.25 * X[7]],
    ),
    "total": Shown(
        [X[:32], ((1,), mx.float32)],
        32,
        {"partial[t + step];": "partial[t + step]; simdgroup_barrier(mem_flags::mem_threadgroup);"},
        [X[:32].sum()],
    ),
    "softmax": Shown(
        [X, ((64,), mx.float32)],
        64,
        {"    float power": f"    {BARRIER}\n    float power"},
        E / E.sum(),
    ),
    "differences": Shown(
        [X, ((50,), mx.float32), 50],
        64,
        {
            "if (i >= n) return;": "",
            "tile[t] = x[i];": "tile[t] = i < n ? x[i] : 0;",
            "    out[i]": "    if (i < n) out[i]",
        },
        X[:50] - np.where(np.arange(50) % 32 > 0, np.roll(X[:50], 1), X[:50]),
        threadgroup=32,
    ),
    "row_sums": Shown(
        [X[:24], ((4,), mx.float32), 6],
        4,
        {
            "device const float4* row = (device const float4*)(": "device const float* row = (",
            "float4 v = row[j / 4];": "",
            "v.x + v.y + v.z + v.w": "row[j] + row[j + 1] + row[j + 2] + row[j + 3]",
        },
        X[:24].reshape(4, 6).sum(1),
    ),
    "scale": Shown(
        [X[:10], ((10,), mx.float32), 10],
        3,
        {"i + 4 <= n": "i < n", "j < i + 4": "j < min(i + 4, n)"},
        2 * X[:10],
    ),
}
