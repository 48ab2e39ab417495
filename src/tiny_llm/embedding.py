"""Embedding: from token ids to vectors and, with the same table, from vectors to logits."""

import mlx.core as mx

from .basics import linear


class Embedding:
    """A table with one row per token."""

    def __init__(self, vocab_size: int, embedding_dim: int, weight: mx.array) -> None:
        """Store the table.

        Args:
            vocab_size: V, the number of tokens.
            embedding_dim: E, the size of a token's vector.
            weight: V x E.

        Raises:
            ValueError: weight's shape is not (V, E).
        """
        raise NotImplementedError("1.5.1 Embedding")

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the vectors of tokens.

        Args:
            tokens: N.., integers from 0 to V - 1.

        Returns:
            N.. x E, in the table's dtype.
        """
        raise NotImplementedError("1.5.1 Embedding")

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table: the output head of a model with tied embeddings.

        Args:
            x: N.. x E.

        Returns:
            N.. x V, in the dtype that x and the table share.

        Source: Press and Wolf 2017; `mlx.nn.Embedding.as_linear`.
        """
        raise NotImplementedError("1.5.1 Embedding")
