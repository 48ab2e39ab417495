"""Loading a rank's part of a checkpoint: only its rows and columns are read from the safetensors files."""

import json
import math
from collections.abc import Container
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import mlx.core as mx
import numpy as np

from .shards import Cut, Partition

# Each dtype of a safetensors file, as NumPy stores its bits, and as MLX reads them.
DTYPES = {
    "F32": (np.float32, mx.float32),
    "F16": (np.float16, mx.float16),
    "BF16": (np.uint16, mx.bfloat16),
    "U32": (np.uint32, mx.uint32),
}
INDEX = "model.safetensors.index.json"


class Shard(NamedTuple):
    """A rank's weights, and how many bytes of the files' tensors were read for them."""

    weights: dict[str, mx.array]
    bytes_read: int


def load_shard(folder: Path, partition: Partition, wanted: Container[str] | None = None) -> Shard:
    """Read a rank's part of a checkpoint of one or more safetensors files.

    Args:
        folder: with `model.safetensors`, or with `model.safetensors.index.json` and the files that it names.
        partition: what the rank holds of each tensor.
        wanted: the names of the tensors to read; None for all.

    Raises:
        ValueError: a tensor's dtype is unknown, or the partition cannot cut it.
        OSError: a file is missing or cannot be read.
    """
    index, weights, count = folder / INDEX, {}, 0
    names = set(json.loads(index.read_bytes())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    for each in sorted(names):
        with (folder / each).open("rb", buffering=0) as file:  # a buffer would read more than is requested
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(size))
            for name, entry in header.items():
                if name != "__metadata__" and (wanted is None or name in wanted):
                    weights[name] = _read(file, 8 + size, name, entry, partition.cut(name, tuple(entry["shape"])))
                    count += weights[name].nbytes
    return Shard(weights, count)


def _read(file: BinaryIO, data: int, name: str, entry: dict[str, Any], cut: Cut | None) -> mx.array:
    """Read a part of a tensor. Rows are one range of bytes; of columns, each row has a range of its own."""
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{name} is {entry['dtype']}, but {', '.join(DTYPES)} can be read")
    stored, dtype = DTYPES[entry["dtype"]]
    shape = entry["shape"]
    rows, columns = shape[0], math.prod(shape[1:])
    top, bottom = (cut.start, cut.stop) if cut and cut.axis == 0 else (0, rows)
    left, right = (cut.start, cut.stop) if cut and cut.axis == 1 else (0, columns)
    found = np.empty((bottom - top, right - left), stored)
    start, item = data + entry["data_offsets"][0], found.itemsize
    step = 1 if cut and cut.axis == 1 else max(1, len(found))  # rows per read
    for row in range(0, len(found), step):
        file.seek(start + ((top + row) * columns + left) * item)
        _fill(file, memoryview(found[row : row + step].data).cast("B"), name)
    return mx.array(found.reshape(-1) if len(shape) == 1 else found).view(dtype)


def _fill(file: BinaryIO, into: memoryview, name: str) -> None:
    """Read as many bytes as fit; one call may read fewer."""
    while into:
        count = file.readinto(into)  # type: ignore[attr-defined]
        if not count:
            raise OSError(f"the file ends within {name}")
        into = into[count:]
