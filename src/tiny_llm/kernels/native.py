"""The kernels one by one, called through ctypes: for experiments and for the checks.

The engine does not use this: `ops.py` wraps the kernels as MLX operations.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

SCALE_TYPES = (mx.float32, mx.float16, mx.bfloat16)  # the index is the kernels' scale_type


@dataclass(frozen=True)
class Result:
    """An output argument, which the kernel fills."""

    shape: tuple[int, ...]
    dtype: Any = np.float32


def matvec_scalar(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """Return W x for a 4-bit W, by the kernel of this name.

    Args:
        x: I, float32.
        packed: O x (I / 8), uint32: W as `mx.quantize` packs it.
        scales: O x (I / group_size), float32, float16 or bfloat16.
        biases: as scales.
        group_size: 32, 64 or 128.

    Returns:
        O, float32.
    """
    return _matvec("matvec.cpp", "matvec_scalar", x, packed, scales, biases, group_size)


def matvec_simd(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """As `matvec_scalar`, by the kernel of this name."""
    return _matvec("matvec.cpp", "matvec_simd", x, packed, scales, biases, group_size)


def matvec_threads(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """As `matvec_scalar`, by the kernel of this name."""
    return _matvec("matvec.cpp", "matvec_threads", x, packed, scales, biases, group_size)


def matvec_int8(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """As `matvec_scalar`, with x rounded to 8 bits, by the kernel of this name."""
    return _matvec("matvec_int8.cpp", "matvec_int8", x, packed, scales, biases, group_size)


def matmul(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """Return x W^T, N x O, float32, by the kernel of this name. x: N x I, float32; the rest as for `matvec_scalar`."""
    tokens, inputs, outputs = *x.shape, packed.shape[0]
    y, sizes = Result((tokens, outputs)), (tokens, outputs, inputs, group_size)
    return call("matmul.cpp", "matmul", x, packed, scales, biases, y, *sizes, SCALE_TYPES.index(scales.dtype))


def attend(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
    """Return softmax(queries . keys * scale) . values for one token, by the kernel of this name.

    Args:
        queries: H x D, float32: the heads that share keys and values.
        keys: S x D, float32.
        values: S x D, float32.
        scale: multiplies the scores.

    Returns:
        H x D, float32.
    """
    (heads, dims), length = queries.shape, keys.shape[0]
    return call("attend.cpp", "attend", queries, keys, values, Result((heads, dims)), heads, dims, length, scale)


def flash(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
    """Return the causal attention of the last L of S tokens, by the kernel of this name.

    Query head h reads the keys and values of head h // (H / H_kv). Query i sees the keys 0 to i + S - L.

    Args:
        queries: L x H x D, float32; L is at most S.
        keys: H_kv x S x D, float32.
        values: H_kv x S x D, float32.
        scale: multiplies the scores.

    Returns:
        L x H x D, float32.
    """
    (length, heads, dims), (kv_heads, tokens, _) = queries.shape, keys.shape
    sizes = heads, kv_heads, dims, length, tokens
    return call("flash.cpp", "flash", queries, keys, values, Result(queries.shape), *sizes, scale)


def call(file: str, function: str, *arguments: Any) -> mx.array:
    """Call a function of a file in this folder: arrays and `Result` for its pointers, numbers for the rest."""
    (made,) = run(Path(__file__).parent / file, function, [_plain(argument) for argument in arguments])
    return mx.array(made)


def run(source: Path, function: str, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Call a function of a file's library, built by `pdm run build-ext`, and return the arrays that it has filled.

    Nothing is checked: an out-of-bounds write shows later, or never.

    Raises:
        RuntimeError: the library is not built.
    """
    library = source.parent / ".build" / f"{source.stem}.so"
    if not library.is_file():
        raise RuntimeError(f"{library.name} is not built: pdm run build-ext")
    made: list[np.ndarray[Any, Any]] = []
    passed: list[Any] = []
    for argument in arguments:
        array = np.empty(argument.shape, argument.dtype) if isinstance(argument, Result) else argument
        if isinstance(argument, Result):
            made.append(array)
        if isinstance(array, np.ndarray):
            passed.append(ctypes.c_void_p(array.ctypes.data))
        else:
            passed.append(ctypes.c_float(array) if isinstance(array, float) else ctypes.c_int(array))
    ctypes.CDLL(str(library))[function](*passed)
    return made


def _matvec(
    file: str, function: str, x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int
) -> mx.array:
    (inputs,), outputs = x.shape, packed.shape[0]
    sizes = outputs, inputs, group_size, SCALE_TYPES.index(scales.dtype)
    return call(file, function, x, packed, scales, biases, Result((outputs,)), *sizes)


def _plain(argument: Any) -> Any:
    """Convert an MLX array to NumPy, bfloat16 as its bits in uint16; return anything else unchanged."""
    if not isinstance(argument, mx.array):
        return argument
    return np.ascontiguousarray(np.array(argument.view(mx.uint16) if argument.dtype == mx.bfloat16 else argument))
