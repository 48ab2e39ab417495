"""The kernels as MLX operations: lazy like any other, and run on the CPU."""

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import mlx.core as mx

GROUP_SIZES = (32, 64, 128)
BITS = 4
SCALES = (mx.float32, mx.float16, mx.bfloat16)


def quantized_matmul(
    x: mx.array,
    packed: mx.array,
    scales: mx.array,
    biases: mx.array,
    group_size: int = 64,
    bits: int = 4,
    *,
    int8: bool = False,
) -> mx.array:
    """Return x @ W.T for a quantized W: one row of x by `matvec_threads`, more rows by `matmul`.

    Args:
        x: N.. x I, any float dtype. The product is computed in float32.
        packed: O x (I / 8), uint32: W as `mx.quantize` packs it.
        scales: O x (I / group_size), float32, float16 or bfloat16.
        biases: as scales.
        group_size: 32, 64 or 128.
        bits: 4.
        int8: round x to 8 bits: one row for `matvec_int8`, more for `matvecs_int8`.

    Returns:
        N.. x O, in x's dtype.

    Raises:
        ValueError: an argument is not as above; the message says what was given and what is needed.

    Source: `mx.quantized_matmul`.
    """
    if group_size not in GROUP_SIZES or bits != BITS:
        given = f"{bits} bits in groups of {group_size}"
        raise ValueError(f"{given} were given, but 4 in groups of 32, 64 or 128 are needed")
    outputs, inputs = packed.shape[0], packed.shape[1] * 32 // bits
    if x.shape[-1] != inputs:
        raise ValueError(f"x has {x.shape[-1]} features, but {inputs} are needed")
    if packed.dtype != mx.uint32:
        raise ValueError(f"packed is {packed.dtype}, but uint32 is needed")
    for name, each in [("scales", scales), ("biases", biases)]:
        if each.shape != (outputs, inputs // group_size):
            raise ValueError(f"{name} has shape {each.shape}, but {(outputs, inputs // group_size)} is needed")
        if each.dtype not in SCALES or each.dtype != scales.dtype:
            raise ValueError(f"{name} is {each.dtype}, but float32, float16 or bfloat16 is needed, for both the same")
    if x.size == 0:
        return mx.zeros((*x.shape[:-1], outputs), x.dtype)
    return unchecked_matmul(x, packed, scales, biases, group_size, int8)


def unchecked_matmul(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int, int8: bool = False
) -> mx.array:
    """As `quantized_matmul`, of arguments that are known to be right: the checks take longer than a small product."""
    y: mx.array = extension().quantized_matmul(x.astype(mx.float32), packed, scales, biases, group_size, int8)
    return y.astype(x.dtype)


@functools.cache
def extension() -> ModuleType:
    """Load the module built by `build.py`.

    Raises:
        ImportError: it is not built.
    """
    library = Path(__file__).with_name(".build") / "_kernels.so"
    if not library.is_file():
        raise ImportError("the kernels are not built: pdm run build-ext")
    spec = importlib.util.spec_from_file_location(f"{__package__}._kernels", library)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
