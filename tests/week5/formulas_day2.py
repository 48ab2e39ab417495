"""The formulas of day 2 in NumPy float64: packing token by token, a loader's rows, cross-entropy and its gradient."""

import itertools
import random

import numpy as np
from tests.week1.formulas import softmax64

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32

FIELDS = ("tokens", "targets", "document_ids", "positions")
IGNORE, PADDING = -100, -1


def pack64(documents, length: int, eos: int, *, r: Round = exact) -> dict[str, Array64]:
    """Write one token after the other: its target, the document's number, its position."""
    stream = []  # (token, target, document)
    for number, document in enumerate(documents):
        tokens = [*document, eos]
        stream += list(zip(tokens, [*tokens[1:], IGNORE], itertools.repeat(number), strict=False))
    while len(stream) % length:
        stream.append((eos, IGNORE, PADDING))
    columns: list[list[list[int]]] = [[] for _ in FIELDS]
    for first in range(0, len(stream), length):
        row, seen = stream[first : first + length], dict[int, int]()
        for column, values in zip(columns, zip(*row, strict=True), strict=False):
            column.append(list(values))
        columns[3].append([])
        for _, _, number in row:
            columns[3][-1].append(seen.get(number, 0))
            seen[number] = seen.get(number, 0) + 1
    return {
        name: np.array(column, np.float64).reshape(-1, length) for name, column in zip(FIELDS, columns, strict=True)
    }


def mask64(document_ids: Array64, *, r: Round = exact) -> Array64:
    """Ask for every query and key whether the key is in the same document and not later."""
    length = document_ids.shape[-1]
    mask = np.zeros((*document_ids.shape[:-1], 1, length, length))
    for query in range(length):
        for key in range(query + 1):
            mask[..., 0, query, key] = document_ids[..., query] == document_ids[..., key]
    return mask


def order(count: int, *keys: int) -> list[int]:
    """What `shuffled` returns."""
    numbers = list(range(count))
    random.Random(" ".join(str(key) for key in keys)).shuffle(numbers)
    return numbers


def epoch64(shards: list[list[list[int]]], length: int, eos: int, seed: int, epoch: int) -> dict[str, Array64]:
    """Return all rows of an epoch."""
    parts = []
    for shard in order(len(shards), seed, epoch):
        documents = shards[shard]
        parts.append(pack64([documents[i] for i in order(len(documents), seed, epoch, shard)], length, eos))
    return {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}


def epochs64(shards: list[list[list[int]]], length: int, eos: int, seed: int, count: int) -> dict[str, Array64]:
    """Return the rows of the first epochs."""
    parts = [epoch64(shards, length, eos, seed, epoch) for epoch in range(count)]
    return {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}


def cross_entropy64(logits: Array64, targets: Array64, ignore_index: int = IGNORE, *, r: Round = exact) -> Array64:
    """Compute the mean loss over the positions that count."""
    f = in_float32(r)
    counted = targets != ignore_index
    if not counted.any():
        return np.zeros(())
    rows, labels = logits[counted], targets[counted].astype(int)
    largest = rows.max(axis=-1)
    sums = f(np.exp(f(rows - largest[:, None])).sum(axis=-1))
    losses = f(f(f(np.log(sums)) + largest) - rows[np.arange(len(rows)), labels])
    return np.asarray(f(losses.mean()))


def gradient64(logits: Array64, targets: Array64, ignore_index: int = IGNORE, *, r: Round = exact) -> Array64:
    """Compute the gradient of the mean loss, position by position that counts."""
    f = in_float32(r)
    gradient, counted = np.zeros(logits.shape), targets != ignore_index
    if counted.any():
        probabilities = softmax64(logits[counted], -1, r=f)
        probabilities[np.arange(len(probabilities)), targets[counted].astype(int)] -= 1
        gradient[counted] = probabilities / counted.sum()
    return r(gradient)
