"""Sequence packing: documents of any length in rows of one length, and the mask that keeps them apart."""

import dataclasses
from collections.abc import Iterable, Sequence

import mlx.core as mx
import numpy as np

IGNORE = -100  # the target of a position that is not counted in the loss
PADDING = -1  # the document id of padding


@dataclasses.dataclass(frozen=True)
class Rows:
    """Packed rows of L tokens: four arrays of int32, N x L each."""

    tokens: mx.array  # the model's input
    targets: mx.array  # the next token of the same document, or IGNORE
    document_ids: mx.array  # the document that a token is from, or PADDING
    positions: mx.array  # how many earlier tokens of the row are from the same document

    def __len__(self) -> int:
        """Return N, the number of rows."""
        return self.tokens.shape[0]

    def __getitem__(self, rows: slice) -> "Rows":
        """Return some of the rows, as in rows[2:4]."""
        return Rows(self.tokens[rows], self.targets[rows], self.document_ids[rows], self.positions[rows])

    @staticmethod
    def concatenate(parts: Sequence["Rows"]) -> "Rows":
        """Join rows of the same length, in order."""
        names = [field.name for field in dataclasses.fields(Rows)]
        return Rows(*(mx.concatenate([getattr(part, name) for part in parts]) for name in names))


def pack_documents(documents: Iterable[Sequence[int]], length: int, eos: int) -> Rows:
    """Append eos to each document, join all documents in order, and cut the result into rows of L tokens.

    Args:
        documents: the token ids of each document, without eos, as a list, a tuple or a NumPy array. They are numbered
            from 0.
        length: L.
        eos: the end-of-document token.

    Returns:
        N x L each, int32, with as few rows as possible; 0 x L if there are no documents.

        tokens: every token of every document once, and one eos per document. The last row is filled with eos.
        targets: the next token of the same document, also where that is the first token of the next row. An eos that
            ends a document, and padding, have IGNORE: a document of n tokens yields n targets that count.
        document_ids: the number of the token's document, the same in all rows that hold a part of it. PADDING for
            padding.
        positions: the number of earlier tokens of this row with the same document id. They restart at 0 in each
            document and in each row, because a token does not see other rows.

    Raises:
        ValueError: length is less than 1. The message states it.

    Source: Raffel et al. 2019, section 3.1.2 (packing); `nanochat` and `torchtitan` pack their training rows likewise.
    """
    if length < 1:
        raise ValueError(f"length is {length}, but a row needs at least 1 token")
    pieces = [np.array([*document, eos], np.int32) for document in documents]
    count = sum(map(len, pieces))
    padding = -count % length
    # One token more than the rows hold: the last one needs a next token, too.
    tokens = np.concatenate([*pieces, np.full(padding + 1, eos, np.int32)])
    ids = np.concatenate([np.repeat(np.arange(len(pieces)), [len(p) for p in pieces]), np.full(padding + 1, PADDING)])
    continues = (ids[:-1] == ids[1:]) & (ids[:-1] != PADDING)  # the next token is from the same document
    targets = np.where(continues, tokens[1:], IGNORE)
    rows = ids[:-1].reshape(-1, length)  # N x L
    index = np.arange(length)  # L
    starts = np.zeros_like(rows)  # N x L: the index where a new document starts, 0 elsewhere
    starts[:, 1:] = np.where(rows[:, 1:] != rows[:, :-1], index[1:], 0)
    positions = index - np.maximum.accumulate(starts, axis=1)  # minus the latest start so far
    arrays = (tokens[:-1], targets, rows, positions)
    return Rows(*(mx.array(each.reshape(-1, length).astype(np.int32)) for each in arrays))


def document_mask(document_ids: mx.array) -> mx.array:
    """Return the attention mask of packed rows: a token sees itself and the earlier tokens of its own document.

    Args:
        document_ids: N.. x L, integers, any number of leading dimensions, including none. PADDING is a document like
            any other: padding sees padding, so that no row of the mask is fully masked.

    Returns:
        N.. x 1 x L x L, bool, True where a query (row) sees a key (column). The 1 broadcasts over heads, in
        `masked_attention` and in `mx.fast.scaled_dot_product_attention`.

    Source: `torch.nn.attention.flex_attention` (document masking); `flash_attn_varlen_func` computes the same.
    """
    same = document_ids[..., :, None] == document_ids[..., None, :]  # N.. x L x L
    index = mx.arange(document_ids.shape[-1])
    return (same & (index[:, None] >= index))[..., None, :, :]
