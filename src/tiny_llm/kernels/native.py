"""The kernels one by one, straight from Python: for a look at one of them, and for the checks.

The engine does not come this way: `ops.py` makes of kernels operations of MLX.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

SCALE_TYPES = (mx.float32, mx.float16, mx.bfloat16)  # their places are what the kernels know them by


@dataclass(frozen=True)
class Result:
    """An argument that the kernel fills."""

    shape: tuple[int, ...]
    dtype: Any = np.float32


def matvec_scalar(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """y = W x, by the kernel of this name.

    Args:
        x: I, float32.
        packed: O x (I / 8), uint32, as `mx.quantize` packs 4 bits.
        scales: O x (I / group_size), float32, float16 or bfloat16.
        biases: as scales.
        group_size: 32, 64 or 128.

    Returns:
        O, float32.
    """
    return _matvec("matvec.cpp", "matvec_scalar", x, packed, scales, biases, group_size)


def matvec_simd(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """The same, by the kernel of this name."""
    return _matvec("matvec.cpp", "matvec_simd", x, packed, scales, biases, group_size)


def matvec_threads(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """The same, by the kernel of this name."""
    return _matvec("matvec.cpp", "matvec_threads", x, packed, scales, biases, group_size)


def matvec_int8(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """The same with x rounded to 8 bits, by the kernel of this name."""
    return _matvec("matvec_int8.cpp", "matvec_int8", x, packed, scales, biases, group_size)


def matmul(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """X W^T, by the kernel of this name. x: N x I, float32; the rest as for `matvec_scalar`. Returns N x O, float32."""
    tokens, inputs, outputs = *x.shape, packed.shape[0]
    y, sizes = Result((tokens, outputs)), (tokens, outputs, inputs, group_size)
    return call("matmul.cpp", "matmul", x, packed, scales, biases, y, *sizes, SCALE_TYPES.index(scales.dtype))


def attend(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
    """softmax(queries . keys * scale) . values, by the kernel of this name.

    Args:
        queries: H x D, float32, of one token: the heads that share keys and values.
        keys: S x D, float32.
        values: S x D, float32.
        scale: of the scores.

    Returns:
        H x D, float32.
    """
    (heads, dims), length = queries.shape, keys.shape[0]
    return call("attend.cpp", "attend", queries, keys, values, Result((heads, dims)), heads, dims, length, scale)


def flash(queries: mx.array, keys: mx.array, values: mx.array, scale: float) -> mx.array:
    """Causal attention of the last L of S tokens, by the kernel of this name.

    Query head h reads the keys and values of head h // (H / H_kv). Query i sees the keys 0 to i + S - L.

    Args:
        queries: L x H x D, float32; L is S or less.
        keys: H_kv x S x D, float32.
        values: H_kv x S x D, float32.
        scale: of the scores.

    Returns:
        L x H x D, float32.
    """
    (length, heads, dims), (kv_heads, tokens, _) = queries.shape, keys.shape
    sizes = heads, kv_heads, dims, length, tokens
    return call("flash.cpp", "flash", queries, keys, values, Result(queries.shape), *sizes, scale)


def call(file: str, function: str, *arguments: Any) -> mx.array:
    """Call a function of a file that lies here: arrays and `Result` for its pointers, numbers for the rest."""
    (made,) = run(Path(__file__).parent / file, function, [_plain(argument) for argument in arguments])
    return mx.array(made)


def run(source: Path, function: str, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Call a function of a file's library, which `pdm run build-ext` builds; what it has filled.

    Nothing is checked here: what it does to other memory shows later, or never.
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
    """An array as NumPy has it, which knows no bfloat16."""
    if not isinstance(argument, mx.array):
        return argument
    return np.ascontiguousarray(np.array(argument.view(mx.uint16) if argument.dtype == mx.bfloat16 else argument))
