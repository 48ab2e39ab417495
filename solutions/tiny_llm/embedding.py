"""Embedding: from token ids to vectors, and with the same table back from vectors to scores for every token."""

import mlx.core as mx

from .basics import linear


class Embedding:
    """A table with one row for each token."""

    def __init__(self, vocab_size: int, embedding_dim: int, weight: mx.array) -> None:
        """Keep the table.

        Args:
            vocab_size: V, the number of tokens.
            embedding_dim: E, the size of a token's vector.
            weight: V x E.

        Raises:
            ValueError: weight has another shape than (V, E).
        """
        if weight.shape != (vocab_size, embedding_dim):
            raise ValueError(f"weight has shape {weight.shape}, but {(vocab_size, embedding_dim)} is needed")
        self.weight = weight

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look tokens up.

        Args:
            tokens: N.., integers from 0 to V - 1.

        Returns:
            N.. x E, in the table's dtype.
        """
        return self.weight[tokens]

    def as_linear(self, x: mx.array) -> mx.array:
        """Compare vectors with every row of the table: the output head of a model with tied embeddings.

        Args:
            x: N.. x E.

        Returns:
            N.. x V, the dot product with each token's vector, in the dtype that x and the table share.

        Source: Press and Wolf 2017; `mlx.nn.Embedding.as_linear`.
        """
        return linear(x, self.weight)
