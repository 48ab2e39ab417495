"""A Qwen3 model whose layers share weights, and keep caches of their own."""

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.model import Qwen3CachedModel
from ..qwen3_cached.parts import DENSE, Dense
from .owners import weight_owner


class SharedLayersModel:
    """What `Qwen3CachedModel` is, with fewer layers in the file than a token passes through."""

    def __init__(
        self, config: ModelConfig, weights: dict[str, mx.array], distinct: int, order: str, parts: Dense = DENSE
    ) -> None:
        """Build the layers that are stored, and put them into the order in which they are used.

        Args:
            config: the model's measures. num_hidden_layers is how many layers a token passes through.
            weights: by the names of a checkpoint. Of layers there are `model.layers.0.` to
                `model.layers.{distinct - 1}.`; others that lie in the dictionary are left alone.
            distinct: how many layers are stored, a divisor of num_hidden_layers.
            order: how the layers share them, as `weight_owner` takes it.
            parts: makes all matrices of the weights, each of them once, however many layers use it.

        Raises:
            KeyError: a weight is missing.
            ValueError: as `weight_owner`.
        """
        raise NotImplementedError("4.6.3 A model whose layers share")

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each layer that a token passes through, whichever weights it uses."""
        raise NotImplementedError("4.6.3 A model whose layers share")

    def __call__(self, tokens: mx.array, caches: list[KVCache] | None = None, all_positions: bool = False) -> mx.array:
        """Read tokens, and score every token of the vocabulary as the next one.

        Args:
            tokens: N x L, integers: those that the caches do not hold yet.
            caches: one for each layer, as `new_caches` gives them, which then hold these tokens, too; or None, if
                nothing is to be kept.
            all_positions: whether to score after each of the L tokens, and not after the last one alone.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions: to rounding what `Qwen3CachedModel` gives for a file
            in which each layer has a copy of the weights that it uses here.

        Raises:
            ValueError: there are more or fewer caches than layers that a token passes through, or more tokens than the
                config's max_position_embeddings.
        """
        raise NotImplementedError("4.6.3 A model whose layers share")
