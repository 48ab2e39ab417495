"""Products with a matrix in 4 bits, by the kernels of this folder."""

import math

import mlx.core as mx

from .device import Launch, launch

GROUP_SIZES = (32, 64, 128)
FLOATS = (mx.float32, mx.float16, mx.bfloat16)
ROWS = 8  # of W for a threadgroup that multiplies it by a vector: one for each SIMD-group
TILE = 32  # rows and columns of a tile of y
THREADS = 128  # of the threadgroup of a tile
SIMDGROUP = 32  # threads
MOST = 8  # rows of x that are multiplied in parts


def quantized_matvec(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64
) -> mx.array:
    """W x, of a W in 4 bits, by the kernel `quantized_matvec.metal`.

    Args:
        x: I, in float32, float16 or bfloat16.
        packed: O x (I / 8), uint32: W as `mx.quantize` packs it.
        scales: O x (I / group_size), float32, float16 or bfloat16; not necessarily x's dtype.
        biases: as scales.
        group_size: 32, 64 or 128.

    Returns:
        O, in x's dtype; it is computed in float32.

    Raises:
        ValueError: an argument is not as above; the message says what it is and what is needed.

    Source: `mx.quantized_matmul`.
    """
    _checked(x, 1, packed, scales, biases, group_size)
    outputs = len(packed)
    work = Launch(
        {"x": x, "packed": packed, "scales": scales, "biases": biases},
        {"y": ((outputs,), x.dtype)},
        (-(-outputs // ROWS) * ROWS * SIMDGROUP, 1, 1),
        (ROWS * SIMDGROUP, 1, 1),
        {"T": x.dtype, "S": scales.dtype},
    )
    return launch("quantized_matvec", work)[0]


def quantized_tiles(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64
) -> mx.array:
    """x @ W.T, of a W in 4 bits, tile by tile, by the kernel `quantized_tiles.metal`.

    Args:
        x: N x I, in float32, float16 or bfloat16.
        packed, scales, biases, group_size: as for `quantized_matvec`.

    Returns:
        N x O, in x's dtype; it is computed in float32.

    Raises:
        ValueError: an argument is not as above; the message says what it is and what is needed.

    Source: `mx.quantized_matmul`.
    """
    return _by_tiles("quantized_tiles", x, packed, scales, biases, group_size)


def quantized_matrices(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64
) -> mx.array:
    """As `quantized_tiles`, by matrices of 8 x 8 that a SIMD-group multiplies, `quantized_matrices.metal`."""
    return _by_tiles("quantized_matrices", x, packed, scales, biases, group_size)


def split_products(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64, parts: int = 4
) -> mx.array:
    """x @ W.T, of a W in 4 bits, in parts that are to be added up, by the kernel `split_products.metal`.

    The inputs are taken in blocks of 256, of which the last one may be shorter. Each part has ceil(blocks / parts) of
    them, one after another; the last parts have what is left, or none.

    Args:
        x: N x I, in float32, float16 or bfloat16, N at most 8.
        packed, scales, biases, group_size: as for `quantized_matvec`.
        parts: how many, 1 at least.

    Returns:
        parts x N x O, float32: the products of each part's inputs, 0 where it has none.

    Raises:
        ValueError: an argument is not as above; the message says what it is and what is needed.
    """
    _checked(x, 2, packed, scales, biases, group_size)
    length, outputs = len(x), len(packed)
    if length > MOST or parts < 1:
        raise ValueError(
            f"x has {length} rows, in {parts} parts, but {MOST} rows at most and 1 part at least are needed"
        )
    work = Launch(
        {"x": x, "packed": packed, "scales": scales, "biases": biases},
        {"partial": ((parts, length, outputs), mx.float32)},
        (-(-outputs // ROWS) * ROWS * SIMDGROUP, parts, 1),
        (ROWS * SIMDGROUP, 1, 1),
        {"T": x.dtype, "S": scales.dtype},
    )
    return launch("split_products", work)[0]


def quantized_split(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64, parts: int = 4
) -> mx.array:
    """x @ W.T, of an x of few rows and a W in 4 bits: `split_products`, and the sum of its parts by a second kernel.

    Args:
        x, packed, scales, biases, group_size, parts: as for `split_products`.

    Returns:
        N x O, in x's dtype; it is computed in float32.

    Raises:
        ValueError: as `split_products` does.

    Source: `mx.quantized_matmul`.
    """
    partial = split_products(x, packed, scales, biases, group_size, parts)
    shape = partial.shape[1:]
    threads = -(-math.prod(shape) // SIMDGROUP) * SIMDGROUP
    work = Launch({"partial": partial}, {"y": (shape, x.dtype)}, (threads, 1, 1), (SIMDGROUP, 1, 1), {"T": x.dtype})
    return launch("sum_of_parts", work)[0]


def _by_tiles(
    kernel: str, x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int
) -> mx.array:
    """The product, by a kernel that has a threadgroup for each tile of y."""
    _checked(x, 2, packed, scales, biases, group_size)
    length, outputs = len(x), len(packed)
    work = Launch(
        {"x": x, "packed": packed, "scales": scales, "biases": biases},
        {"y": ((length, outputs), x.dtype)},
        (-(-outputs // TILE) * THREADS, -(-length // TILE), 1),
        (THREADS, 1, 1),
        {"T": x.dtype, "S": scales.dtype},
    )
    return launch(kernel, work)[0]


def _checked(
    x: mx.array, dimensions: int, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int
) -> None:
    """Raise a ValueError unless these can be multiplied."""
    if group_size not in GROUP_SIZES:
        raise ValueError(f"group_size is {group_size}, but 32, 64 or 128 is needed")
    if packed.ndim != 2 or packed.dtype != mx.uint32:
        raise ValueError(f"packed is {packed.shape} {packed.dtype}, but O x I / 8 in uint32 is needed")
    outputs, inputs = packed.shape[0], packed.shape[1] * 8
    if x.ndim != dimensions or x.shape[-1] != inputs:
        raise ValueError(f"x has shape {x.shape}, but {dimensions} dimensions, the last one {inputs}, are needed")
    for name, each in [("scales", scales), ("biases", biases)]:
        if each.shape != (outputs, inputs // group_size) or inputs % group_size:
            raise ValueError(f"{name} has shape {each.shape}, but ({outputs}, {inputs} / {group_size}) is needed")
        if each.dtype not in FLOATS or each.dtype != scales.dtype:
            raise ValueError(f"{name} is {each.dtype}, but float32, float16 or bfloat16 is needed, for both the same")
    if x.dtype not in FLOATS:
        raise ValueError(f"x is {x.dtype}, but float32, float16 or bfloat16 is needed")
