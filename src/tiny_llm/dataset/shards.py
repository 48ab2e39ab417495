"""Shards: files of tokenized documents."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np


def write_shard(path: Path, documents: Iterable[Sequence[int]], eos: int) -> None:
    """Write documents to a .npy file: one array of int32, with eos after each document."""
    pieces = [np.array([*document, eos], np.int32) for document in documents]
    np.save(path, np.concatenate(pieces) if pieces else np.zeros(0, np.int32))


def read_shard(path: Path, eos: int) -> list[list[int]]:
    """Return the documents of a shard, without eos.

    Raises:
        ValueError: the file does not end with eos. The message names the file.
    """
    tokens = np.load(path)
    if not tokens.size or tokens[-1] != eos:
        raise ValueError(f"shard {path.name} does not end with the end-of-document token {eos}")
    ends = np.flatnonzero(tokens == eos)
    return [document[:-1].tolist() for document in np.split(tokens, ends[:-1] + 1)]
