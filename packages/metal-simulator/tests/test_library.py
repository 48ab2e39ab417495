"""Kernels of whole Metal files: parameters by attribute, templates, structs, threadgroup memory, includes."""

import struct
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from metal_simulator import KernelFault, Kind, metal_library

SOURCE = """
#include <metal_stdlib>
using namespace metal;
struct Params { float scale; uint n; };
// kernel void comment(device float* x)
kernel void saxpy(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                  constant Params& p [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    if (i < p.n) y[i] += p.scale * x[i];
}
template <typename T, int N = 1>
[[kernel]] void total(const device T* x [[buffer(1)]], device T* out [[buffer(4)]],
                      threadgroup T* partial [[threadgroup(0)]], ushort2 group [[threadgroup_position_in_grid]],
                      uint3 size [[threads_per_threadgroup]], uint t [[thread_index_in_threadgroup]]) {
    partial[t] = x[group.x * size.x + t];
    for (uint step = size.x / 2; step > 0; step /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < step) partial[t] += partial[t + step];
    }
    if (t == 0) out[group.x] = N * partial[0];
}
template [[host_name("total_float")]] [[kernel]] decltype(total<float>) total<float>;
kernel void add_one(device atomic_int* count, constant int& step) {
    atomic_fetch_add_explicit(count, step, memory_order_relaxed);
}
"""
LIBRARY = metal_library(SOURCE)


def test_names():
    assert LIBRARY.names == ["saxpy", "total", "add_one", "total_float"]


def test_structs_and_buffers_that_change():
    params = struct.pack("fI", 2.0, 4)
    arrays = [mx.arange(5).astype(mx.float32), mx.ones((5,)), params]
    made = LIBRARY["saxpy"](buffers=arrays, grid=(5, 1, 1), threadgroup=(5, 1, 1))
    assert {name: array.tolist() for name, array in made.items()} == {"y": [1, 3, 5, 7, 1]}


@pytest.mark.parametrize(
    ("name", "dtype", "factor"),
    [("total_float", mx.float32, 1), ("total<half>", mx.float16, 1), ("total<int, 3>", mx.int32, 3)],
)
def test_templates_and_threadgroup_memory(name: str, dtype: mx.Dtype, factor: int):
    kernel = LIBRARY[name]
    buffers = {"x": mx.ones((64,), dtype), 4: ((2,), dtype)}
    launch: dict[str, Any] = {"buffers": buffers, "grid": (64, 1, 1), "threadgroup": (32, 1, 1)}
    assert kernel(**launch, threadgroup_memory=[32 * dtype.size])["out"].tolist() == [32 * factor] * 2
    assert kernel.counters
    assert kernel.counters.threadgroup_memory == 32 * dtype.size
    with pytest.raises(KernelFault) as fault:
        kernel(**launch, threadgroup_memory={"partial": 16 * dtype.size})
    assert (fault.value.kind, fault.value.buffer, fault.value.index, fault.value.line) == (
        Kind.OUT_OF_BOUNDS,
        "partial",
        16,
        14,
    )


def test_atomics_and_numbers():
    made = LIBRARY["add_one"](buffers=[mx.array([5]), 2], grid=(40, 1, 1), threadgroup=(32, 1, 1))
    assert made["count"].tolist() == [85]


@pytest.mark.parametrize(
    ("buffers", "words"),
    [
        ([mx.array([5])], r"takes these buffer parameters, each once: count \(buffer 0\), step \(buffer 1\)"),
        ({"count": mx.array([5]), "stride": 2}, "takes these buffer parameters"),
        ([mx.ones((1,)), 2], "declares count as atomic_int, but its array has mlx.core.float32"),
        ([mx.array([5]), ((1,), mx.int32)], "only reads step: pass an array"),
    ],
)
def test_buffers_that_do_not_match(buffers, words: str):
    with pytest.raises(ValueError, match=words):
        LIBRARY["add_one"](buffers=buffers, grid=(1, 1, 1), threadgroup=(1, 1, 1))


def test_says_what_is_not_there():
    with pytest.raises(KeyError, match="no kernel sum; it has saxpy, total"):
        LIBRARY["sum"]
    with pytest.raises(ValueError, match=r"draw: image is a \[\[texture\]\], which the simulator does not support"):
        metal_library("kernel void draw(texture2d<float> image [[texture(0)]]) {}")
    with pytest.raises(ValueError, match="function constants"):
        metal_library("constant bool FAST [[function_constant(0)]];")


def test_included_files_have_lines(tmp_path: Path):
    (tmp_path / "at.h").write_text(
        "#pragma once\ninline float at(const device float* x, int i) {\n    return x[i];\n}\n"
    )
    text = (
        '#include "at.h"\n#include "at.h"\nkernel void k(device const float* x, device float* y) { y[0] = at(x, -1); }'
    )
    (tmp_path / "k.metal").write_text(text)
    buffers = [mx.ones((4,)), ((1,), mx.float32)]
    with pytest.raises(KernelFault) as fault:
        metal_library(tmp_path / "k.metal")["k"](buffers=buffers, grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert (fault.value.file, fault.value.line) == (str((tmp_path / "at.h").resolve()), 3)
    with pytest.raises(KernelFault, match=r"line 3 does not compile: .*none.h"):
        metal_library('\n\n#include "none.h"\nkernel void k() {}')["k"](
            buffers=[], grid=(1, 1, 1), threadgroup=(1, 1, 1)
        )
