"""What the tests and known programs of day 2 share: documents, shards on disk, and rows as arrays."""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from tests.week5.formulas_day2 import FIELDS

EOS = 9
ROOM = tempfile.TemporaryDirectory()  # removed when the process ends


def documents_of(seed: int, *lengths: int, vocab_size: int = 9) -> list[list[int]]:
    """Return random documents of these lengths, without EOS if the vocabulary has 9 tokens."""
    generator = np.random.default_rng(seed)
    return [generator.integers(0, vocab_size, length).tolist() for length in lengths]


def numbered(*counts: int, length: int = 3) -> list[list[list[int]]]:
    """Return shards with so many documents each, of 1 to `length` tokens, all different: their tokens say which."""
    first, shards = EOS + 1, []
    for count in counts:
        shard = []
        for number in range(count):
            size = 1 + (7 * first + number) % length
            shard.append(list(range(first, first + size)))
            first += size
        shards.append(shard)
    return shards


def on_disk(shards: Sequence[Sequence[Sequence[int]]], folder: Path, end: bool = True) -> list[Path]:
    """Write the shards as `write_shard` does, and return their paths; without the last EOS if not `end`.

    The names descend, so that a loader that sorts its shards reads others.
    """
    paths = []
    for number, documents in enumerate(shards):
        tokens = [token for document in documents for token in (*document, EOS)]
        paths.append(folder / f"shard-{len(shards) - 1 - number}.npy")
        np.save(paths[-1], np.array(tokens if end else tokens[:-1], np.int32))
    return paths


@functools.cache
def shard_paths(*counts: int, length: int = 3) -> list[Path]:
    """Return the paths of `numbered` shards, written once."""
    folder = Path(ROOM.name) / ("-".join(map(str, counts)) + f"-of-{length}")
    folder.mkdir()
    return on_disk(numbered(*counts, length=length), folder)


def table(rows: Any) -> mx.array:
    """Return the four arrays of rows, 4 x N x L."""
    return mx.stack([getattr(rows, name) for name in FIELDS])
