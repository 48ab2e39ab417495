"""Layer factory: builds projections and embeddings from a checkpoint's weights, unquantized."""

from collections.abc import Callable

import mlx.core as mx

from ..basics import linear
from ..config import ModelConfig
from ..embedding import Embedding

Projection = Callable[[mx.array], mx.array]


class Dense:
    """Builds floating-point matrices. A subclass may store them smaller, or multiply by them faster."""

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """Return the function x -> x @ W.T + b, from N.. x I to N.. x O.

        Args:
            weights: by the names of a checkpoint.
            name: W, O x I, is `name.weight`.
            bias: whether to add b, O, which is `name.bias`.

        Raises:
            KeyError: a weight is missing.
        """
        w, b = weights[f"{name}.weight"], weights[f"{name}.bias"] if bias else None
        return lambda x: linear(x, w, b)

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> Embedding:
        """Return the embedding whose table, V x E, is `name.weight`.

        Raises:
            KeyError: the table is missing.
        """
        return Embedding(config.vocab_size, config.hidden_size, weights[f"{name}.weight"])


DENSE = Dense()
