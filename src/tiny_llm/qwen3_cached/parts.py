"""How a model's matrices are made of a checkpoint's weights: here each is used as it stands there."""

from collections.abc import Callable

import mlx.core as mx

from ..basics import linear
from ..config import ModelConfig
from ..embedding import Embedding

Projection = Callable[[mx.array], mx.array]


class Dense:
    """Matrices of floats. A class with the same methods may keep them smaller, or multiply by them faster."""

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """The function x -> x @ W.T + b, from N.. x I to N.. x O.

        Args:
            weights: by the names of a checkpoint.
            name: of W, O x I, which is there as `name.weight`.
            bias: whether there is a b, O, as `name.bias`.

        Raises:
            KeyError: a weight is missing.
        """
        w, b = weights[f"{name}.weight"], weights[f"{name}.bias"] if bias else None
        return lambda x: linear(x, w, b)

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> Embedding:
        """The table V x E that is there as `name.weight`.

        Raises:
            KeyError: it is missing.
        """
        return Embedding(config.vocab_size, config.hidden_size, weights[f"{name}.weight"])


DENSE = Dense()
