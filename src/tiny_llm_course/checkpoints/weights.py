"""Read a checkpoint's safetensors files: one or many, plain or quantized by MLX."""

import json
import re
import struct
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.findings import shortened
from ..course.registry import UsageError
from .dimensions import Axes
from .files import must_be_file, read_json, unique

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
EXPERT = re.compile(r"(.*\.mlp\.)experts\.(\d+)(\..*)")
LONGEST_HEADER = 100_000_000  # bytes, the format's own limit


class Stored(NamedTuple):
    """A weight as it is stored, and where."""

    file: Path
    array: mx.array


def open_weights(folder: Path) -> dict[str, Stored]:
    """Return everything in the folder's *.safetensors files, by name, not loaded; UsageError for a damaged file."""
    index, found = folder / "model.safetensors.index.json", dict[str, Stored]()
    places = _places(index) if index.exists() else {}
    files = {folder / name for name in places.values()} if index.exists() else folder.glob("[!.]*.safetensors")
    for file in sorted(files):
        for name, array in _load(file).items():
            if name in found:
                other = found[name].file.name
                raise UsageError(f"{file} and {other} both have the weight {name}, expected one of them")
            found[name] = Stored(file, array)
    if not found:
        raise UsageError(f"{folder} has no *.safetensors file")
    for name, place in places.items():
        if name not in found or found[name].file.name != place:
            raise UsageError(f"{index} says that {place} has the weight {shortened(name)}, but it does not")
    return found


def read_weights(
    folder: Path,
    stored: Mapping[str, Stored],
    wanted: Iterable[tuple[str, Axes]],
    quantization: Any,
    dtype: mx.Dtype | None,
    packed: bool = False,
) -> dict[str, mx.array]:
    """Return the `wanted` weights, lazily, in the shapes that config.json implies; ignore others that are `stored`.

    `quantization` is config.json's. Without `dtype` a plain weight stays as stored, and a quantized one gets its
    scales' dtype. If `packed`, quantized weights stay packed, with scales and biases beside them. Raise UsageError for
    a missing, damaged or misshapen weight, or one that is not quantized as config.json says.
    """
    weights = {}
    for name, axes in wanted:
        shape = tuple(axis.size for axis in axes)
        if name not in stored:
            raise UsageError(f"{folder} has no weight {name}, expected one of shape {shape}")
        (file, weight), to = stored[name], dtype
        if (scales := stored.get(f"{name.removesuffix('.weight')}.scales")) is not None:
            weight, to = _dequantized(name, stored, quantization), dtype or scales.array.dtype
        if weight.dtype not in DTYPES:
            supported = "float32, float16, bfloat16 or MLX's quantized format"
            raise UsageError(f"{file}: {name} is {weight.dtype}, expected {supported}")
        if weight.shape != shape:
            pairs = zip(axes, weight.shape, strict=False)
            differs = next((axis for axis, size in pairs if axis.size != size), axes[0])
            what = f"{name} has shape {weight.shape}, but config.json implies {shape}"
            raise UsageError(f"{file}: {what}: {differs.name} is {differs.size}")
        weights[name] = weight if to is None else weight.astype(to)
        if packed and scales is not None:
            layer = name.removesuffix(".weight")
            weights |= {f"{layer}.{part}": stored[f"{layer}.{part}"].array for part in ("weight", "scales", "biases")}
    return weights


def with_stacked(weights: dict[str, mx.array], name: str) -> dict[str, mx.array]:
    """Return the weights with each layer's experts stacked: `mlp.experts.3.up_proj.weight` is in `mlp.NAME.up_proj`."""
    kept: dict[str, mx.array] = {}
    apart: dict[str, dict[int, mx.array]] = {}
    for key, weight in weights.items():
        if found := EXPERT.fullmatch(key):
            apart.setdefault(f"{found[1]}{name}{found[3]}", {})[int(found[2])] = weight
        else:
            kept[key] = weight
    return kept | {key: mx.stack([each[number] for number in sorted(each)]) for key, each in apart.items()}


def check_claims(file: Path, stored: Mapping[str, Stored], quantization: Any) -> None:
    """Raise UsageError if config.json calls weights quantized that are not, or scales belong to no weight."""
    table = quantization or {}
    if not isinstance(table, dict):
        raise UsageError(f"{file} has quantization = {shortened(repr(table))}, expected an object")
    for layer, _, part in (name.rpartition(".") for name in stored):
        if part in ("scales", "biases") and (alone := {f"{layer}.weight", f"{layer}.scales"} - stored.keys()):
            name = shortened(f"{layer}.{part}")
            raise UsageError(f"{stored[f'{layer}.{part}'].file} has {name}, but no {shortened(max(alone))}")
    if table and not any(name.endswith(".scales") for name in stored):
        raise UsageError(f"{file} has quantization, but no weight is quantized; expected weights with scales")
    for layer, own in {"": table, **{layer: own for layer, own in table.items() if isinstance(own, dict)}}.items():
        if layer and f"{layer}.scales" not in stored:
            raise UsageError(f"{file} has quantization of {shortened(layer)}, but the files have no {layer}.scales")
        for what, right in {"group_size": (16, 32, 64, 128), "bits": (2, 3, 4, 5, 6, 8), "mode": ("affine",)}.items():
            if what in own and own[what] not in right:
                seen, known = shortened(repr(own[what])), ", ".join(map(str, right))
                raise UsageError(f"{file} has {what} = {seen} in quantization, expected one of {known}")


def storage_of(stored: Mapping[str, Stored], quantization: Any) -> tuple[str, bool]:
    """Return how the matrices are stored, in words, and whether the stages that pack compute with them as they are."""
    table = quantization if isinstance(quantization, dict) else {}
    size, kinds = table.get("group_size"), set[tuple[str, str]]()
    for layer, (_, array) in ((name.removesuffix(".weight"), weight) for name, weight in stored.items()):
        own = table[layer] if isinstance(table.get(layer), dict) else table
        if f"{layer}.scales" in stored:
            kinds.add((f"{own.get('bits')}-bit", f"{own.get('group_size')}"))
        elif f"{layer}.weight" in stored and array.ndim > 1 and not (type(size) is int and array.shape[-1] % size):
            kinds.add((str(array.dtype).removeprefix("mlx.core."), ""))
    words = " and ".join(sorted({kind for kind, _ in kinds}))
    return words, len(kinds) == 1 and words in ("4-bit", "8-bit")


def _places(index: Path) -> dict[str, str]:
    """Return the file of each weight by an index; raise UsageError for a damaged index, or a file elsewhere."""
    try:
        places: dict[str, str] = {**read_json(index)["weight_map"]}
        names = {PureWindowsPath(file).name for file in places.values()}  # of all systems, the strictest
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"{index} is damaged, expected a weight_map from weights to files") from error
    for file in places.values():
        if file not in names or not file.endswith(".safetensors") or not file.isprintable():
            raise UsageError(f"{index} names {shortened(repr(file))}, expected *.safetensors files in its own folder")
        if not (index.parent / file).is_file():
            raise UsageError(f"{index.parent / file} is missing, but {index.name} names it")
    return places


def _load(file: Path) -> dict[str, mx.array]:
    try:
        _check_length(file)
        tensors = mx.load(str(file))
    except UsageError:
        raise
    except Exception as error:  # MLX raises RuntimeError, and others for some contents
        reason = error.strerror if isinstance(error, OSError) else _first_line(error)
        raise UsageError(f"{file} cannot be read: {reason}") from error
    assert isinstance(tensors, dict)
    return tensors


def _check_length(file: Path) -> None:
    """Raise UsageError for a truncated download, which MLX would notice only when a weight is used."""
    size = must_be_file(file)
    with file.open("rb") as stream:
        start = stream.read(8)
        if start == b"version ":
            raise UsageError(f"{file} is a Git LFS pointer, expected the weights: git lfs pull")
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(size - 8, LONGEST_HEADER):
            raise UsageError(f"{file} is damaged or truncated: its header is longer than its {size} bytes")
        try:
            header = json.loads(stream.read(length), object_pairs_hook=partial(unique, file))
            end = 0
            for first, last in sorted(each["data_offsets"] for name, each in header.items() if name != "__metadata__"):
                if type(first) is not int or type(last) is not int:
                    raise TypeError
                if first != end:
                    raise UsageError(f"{file} is damaged: its weights overlap or leave gaps, expected neither")
                end = last
            expected = 8 + length + end
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"{file} is damaged, expected a safetensors file: its header is not readable") from error
    if expected != size:
        raise UsageError(f"{file} is truncated or damaged: it has {size} bytes, expected {expected}")


def _dequantized(name: str, stored: Mapping[str, Stored], quantization: Any) -> mx.array:
    file, packed = stored[name]
    layer = name.removesuffix(".weight")
    table = quantization if isinstance(quantization, dict) else {}
    settings = table[layer] if isinstance(table.get(layer), dict) else table
    group_size, bits = settings.get("group_size"), settings.get("bits")
    if type(group_size) is not int or type(bits) is not int:
        raise UsageError(f"{file}: {name} is quantized, but config.json has no group_size and bits for it")
    for part in (parts := (f"{layer}.scales", f"{layer}.biases")):
        if part not in stored:
            raise UsageError(f"{file} has a quantized {name}, but no {part}")
        if (dtype := stored[part].array.dtype) not in DTYPES:
            raise UsageError(f"{file}: {part} is {dtype}, expected float32, float16 or bfloat16")
        if (seen := stored[part].array.shape) != (expected := stored[parts[0]].array.shape):
            raise UsageError(f"{file}: {part} has shape {seen}, expected that of the scales, {expected}")
    # In float32: MLX's CPU arithmetic in the half dtypes is slow and coarse.
    scales, biases = (stored[part].array.astype(mx.float32) for part in parts)
    try:
        return mx.dequantize(packed, scales, biases, group_size=group_size, bits=bits)
    except Exception as error:
        given = f"group_size = {group_size} and bits = {bits}"
        raise UsageError(f"{file}: {name} cannot be dequantized with {given}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
