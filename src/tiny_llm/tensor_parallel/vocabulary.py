"""The vocabulary-parallel embedding: each rank has the rows of some of the tokens."""

from typing import Protocol

import mlx.core as mx

from ..distributed.group import Group


class Table(Protocol):
    """`Embedding`, `QuantizedEmbedding`, or what behaves like them."""

    def __call__(self, tokens: mx.array) -> mx.array: ...  # noqa: D102
    def as_linear(self, x: mx.array) -> mx.array: ...  # noqa: D102


class VocabularyEmbedding:
    """An embedding whose rows are divided among the ranks."""

    def __init__(self, table: Table, vocabulary: range, group: Group) -> None:
        """Store the rank's table.

        Args:
            table: of the rank's own tokens, numbered from 0.
            vocabulary: the ids of these tokens in the model's vocabulary.
            group: the ranks, which together have all tokens, each of them once.
        """
        raise NotImplementedError("6.2.3 The vocabulary-parallel embedding")

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the vectors of tokens, whichever ranks have them, with one all_sum.

        The table is asked only for rows that it has: MLX does not check indices.

        Args:
            tokens: N.., ids of the whole vocabulary, equal on all ranks.

        Returns:
            N.. x E, in the table's dtype, the same on all ranks and the same numbers as in the whole table.
        """
        raise NotImplementedError("6.2.3 The vocabulary-parallel embedding")

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot products of x, N.. x E, with the rank's own rows: its part of the logits, N.. x rows."""
        raise NotImplementedError("6.2.3 The vocabulary-parallel embedding")
