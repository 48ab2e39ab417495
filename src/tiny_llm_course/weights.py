"""Reading a checkpoint's safetensors files: one or many, plain or quantized by MLX."""

import json
import struct
from pathlib import Path
from typing import Any

import mlx.core as mx

from .registry import UsageError

Shape = tuple[int, ...]
DTYPES = (mx.float32, mx.float16, mx.bfloat16)


def read_weights(
    folder: Path, shapes: dict[str, Shape], quantization: dict[str, Any] | None, dtype: mx.Dtype | None
) -> dict[str, mx.array]:
    """The weights that `shapes` names, in the shapes it says.

    Args:
        folder: holds the *.safetensors files.
        shapes: what the model needs; whatever else the files hold is left aside.
        quantization: config.json's table of group_size and bits, with a table of its own for a layer that differs.
        dtype: to bring the weights to; None leaves a plain weight as stored, and a quantized one in its scales' dtype.

    Nothing is computed here: a weight is read from its file, and dequantized, when it is first used.

    Raises:
        UsageError: a file or a weight is missing, damaged or of another shape.
    """
    stored: dict[str, mx.array] = {}
    origin: dict[str, Path] = {}
    for file in _files(folder):
        tensors = _load(file)
        stored |= tensors
        origin |= dict.fromkeys(tensors, file)
    weights = {}
    for name, shape in shapes.items():
        if name not in stored:
            raise UsageError(f"{folder} holds no weight {name}, expected one of shape {shape}")
        file, weight, wanted = origin[name], stored[name], dtype
        if (scales := stored.get(f"{name.removesuffix('.weight')}.scales")) is not None:
            weight, wanted = _dequantized(file, name, stored, quantization), dtype or scales.dtype
        if weight.dtype not in DTYPES:
            raise UsageError(
                f"{file}: {name} is {weight.dtype}, expected float32, float16, bfloat16 or MLX's quantized form"
            )
        if weight.shape != shape:
            raise UsageError(f"{file}: {name} has shape {weight.shape}, but config.json asks for {shape}")
        weights[name] = weight if wanted is None else weight.astype(wanted)
    return weights


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            files = [folder / name for name in names]
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise UsageError(f"{index} is damaged, expected a weight_map from weights to files") from error
        for file in files:
            if not file.is_file():
                raise UsageError(f"{file} is missing, but {index.name} names it")
    else:
        files = sorted(folder.glob("[!.]*.safetensors"))
    if not files:
        raise UsageError(f"{folder} holds no *.safetensors file")
    return files


def _load(file: Path) -> dict[str, mx.array]:
    try:
        _check_length(file)
        tensors = mx.load(str(file))
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except Exception as error:  # MLX raises RuntimeError, and others for some contents
        raise UsageError(f"{file} cannot be read: {_first_line(error)}") from error
    assert isinstance(tensors, dict)
    return tensors


def _check_length(file: Path) -> None:
    """A truncated download is found here: MLX would notice only when a weight is computed with."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(8)
        if start == b"version ":
            raise UsageError(f"{file} is only a pointer of Git LFS, expected the weights: git lfs pull")
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if 8 + length > size:
            raise UsageError(f"{file} is damaged or truncated: its header does not fit into its {size} bytes")
        try:
            header = json.loads(stream.read(length))
            end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
            expected = 8 + length + int(end)
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"{file} is damaged, expected a safetensors file: its header is not readable") from error
    if expected != size:
        raise UsageError(f"{file} is truncated or damaged: it has {size} bytes, expected {expected}")


def _dequantized(file: Path, name: str, stored: dict[str, mx.array], quantization: Any) -> mx.array:
    layer = name.removesuffix(".weight")
    table = quantization if isinstance(quantization, dict) else {}
    settings = table[layer] if isinstance(table.get(layer), dict) else table
    group_size, bits = settings.get("group_size"), settings.get("bits")
    if type(group_size) is not int or type(bits) is not int:
        raise UsageError(f"{file}: {name} is quantized, but config.json states no group_size and bits for it")
    if settings.get("mode", "affine") != "affine":
        raise UsageError(f"{file}: {name} is quantized in mode {settings['mode']!r}, expected 'affine'")
    for part in ("scales", "biases"):
        if f"{layer}.{part}" not in stored:
            raise UsageError(f"{file} holds a quantized {name}, but no {layer}.{part}")
        if (dtype := stored[f"{layer}.{part}"].dtype) not in DTYPES:
            raise UsageError(f"{file}: {layer}.{part} is {dtype}, expected float32, float16 or bfloat16")
    # In float32: MLX's CPU arithmetic in the half dtypes is slow and coarse.
    scales, biases = (stored[f"{layer}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
    try:
        return mx.dequantize(stored[name], scales, biases, group_size=group_size, bits=bits)
    except Exception as error:
        raise UsageError(f"{file}: {name} cannot be dequantized: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
