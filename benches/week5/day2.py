"""What padding costs: documents padded to the longest, beside the same documents packed, as their lengths spread."""

from functools import partial

import mlx.core as mx
import numpy as np

from tiny_llm.basics import linear
from tiny_llm.dataset.loss import cross_entropy
from tiny_llm.dataset.packing import IGNORE, Rows, pack_documents
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("speed-up",))

DOCUMENTS, MEAN, LENGTH = 64, 64, 256
SIZE, VOCABULARY, EOS = 64, 512, 0


def measure(quick: bool = False) -> Table:
    """Measure the loss of a single matrix on documents of the same mean length and ever longer longest ones."""
    ratios = [1, 4] if quick else [1, 2, 4, 8]
    embedding, w = (mx.random.normal((VOCABULARY, SIZE), key=mx.random.key(i)) for i in range(2))
    cases = []
    for ratio in ratios:
        documents = _documents(ratio)
        cases += [_padded(documents), pack_documents(documents, LENGTH, EOS)]
    mx.eval(embedding, w, [(rows.tokens, rows.targets) for rows in cases])
    times = seconds(*(partial(_loss, rows, embedding, w) for rows in cases))
    rows = tuple(
        (ratio, padded.tokens.size, packed.tokens.size, 1e3 * slow, 1e3 * fast, slow / fast)
        for ratio, padded, packed, slow, fast in zip(
            ratios, cases[::2], cases[1::2], times[::2], times[1::2], strict=True
        )
    )
    return Table(
        ("longest / mean", "padded: tokens", "packed: tokens", "padded: ms", "packed: ms", "speed-up"),
        rows,
        f"With a longest document of {rows[-1][0]} times the mean, padding computes {rows[-1][1] / rows[-1][2]:.1f} "
        f"times as many tokens, and packing is {rows[-1][5]:.1f} times as fast.",
    )


def _documents(ratio: int) -> list[list[int]]:
    """Return documents with the same mean length, whose longest has `ratio` times that."""
    share = np.arange(1, DOCUMENTS + 1) / DOCUMENTS
    lengths = np.maximum(1, np.rint(MEAN * ratio * share ** (ratio - 1))).astype(int)
    generator = np.random.default_rng(ratio)
    return [generator.integers(1, VOCABULARY, length).tolist() for length in lengths]


def _padded(documents: list[list[int]]) -> Rows:
    """Return a row per document, as long as the longest with its eos."""
    length = max(map(len, documents)) + 1
    return Rows.concatenate([pack_documents([document], length, EOS) for document in documents])


def _loss(rows: Rows, embedding: mx.array, w: mx.array) -> mx.array:
    """Return the loss of embedding and output matrix."""
    return cross_entropy(linear(embedding[rows.tokens], w), rows.targets, IGNORE)
