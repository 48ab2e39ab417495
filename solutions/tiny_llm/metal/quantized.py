"""Products with a 4-bit matrix, by Metal kernels."""

import math

import mlx.core as mx

from .device import Launch, launch

GROUP_SIZES = (32, 64, 128)
FLOATS = (mx.float32, mx.float16, mx.bfloat16)
ROWS = 8  # of W per threadgroup of a matvec: one per SIMD-group
TILE = 32  # rows and columns of a tile of y
THREADS = 128  # per threadgroup of a tile
SIMDGROUP = 32  # threads
MOST = 8  # the most rows of x for split-K


def quantized_matvec(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64
) -> mx.array:
    """Return W x for a 4-bit W, by the kernel `quantized_matvec.metal`.

    Args:
        x: I, in float32, float16 or bfloat16.
        packed: O x (I / 8), uint32: W as `mx.quantize` packs it.
        scales: O x (I / group_size), float32, float16 or bfloat16; not necessarily x's dtype.
        biases: as scales.
        group_size: 32, 64 or 128.

    Returns:
        O, in x's dtype, computed in float32.

    Raises:
        ValueError: an argument is not as above; the message says what was given and what is needed.

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
    """Return x @ W.T for a 4-bit W, tile by tile, by the kernel `quantized_tiles.metal`.

    Args:
        x: N x I, in float32, float16 or bfloat16.
        packed, scales, biases, group_size: as for `quantized_matvec`.

    Returns:
        N x O, in x's dtype, computed in float32.

    Raises:
        ValueError: an argument is not as above; the message says what was given and what is needed.

    Source: `mx.quantized_matmul`.
    """
    return _by_tiles("quantized_tiles", x, packed, scales, biases, group_size)


def quantized_matrices(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64
) -> mx.array:
    """As `quantized_tiles`, with 8 x 8 SIMD-group matrices, by the kernel `quantized_matrices.metal`."""
    return _by_tiles("quantized_matrices", x, packed, scales, biases, group_size)


def split_products(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64, parts: int = 4
) -> mx.array:
    """Return the partial sums of x @ W.T for a 4-bit W (split-K), by the kernel `split_products.metal`.

    The inputs are cut into blocks of 256; the last block may be shorter. Each part gets ceil(blocks / parts)
    consecutive blocks; the last parts get fewer, or none.

    Args:
        x: N x I, in float32, float16 or bfloat16, N at most 8.
        packed, scales, biases, group_size: as for `quantized_matvec`.
        parts: at least 1.

    Returns:
        parts x N x O, float32: the products over each part's inputs, 0 for a part without inputs.

    Raises:
        ValueError: an argument is not as above; the message says what was given and what is needed.
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
    """Return x @ W.T for an x of few rows and a 4-bit W: `split_products`, then a kernel that sums the parts.

    Args:
        x, packed, scales, biases, group_size, parts: as for `split_products`.

    Returns:
        N x O, in x's dtype, computed in float32.

    Raises:
        ValueError: as `split_products`.

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
    """Run a kernel that has one threadgroup per tile of y."""
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
    """Raise a ValueError unless the arguments are as `quantized_matvec` or `quantized_tiles` takes them."""
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
