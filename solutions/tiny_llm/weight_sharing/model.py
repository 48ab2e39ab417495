"""A Qwen3 model whose layers share weights, and keep caches of their own."""

import dataclasses

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
        layers = config.num_hidden_layers
        owners = [weight_owner(number, layers, distinct, order) for number in range(layers)]
        stored = Qwen3CachedModel(dataclasses.replace(config, num_hidden_layers=distinct), weights, parts)
        self.embedding, self.norm, self.head = stored.embedding, stored.norm, stored.head
        self.layers = [stored.layers[owner] for owner in owners]  # the same object in several places

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each layer that a token passes through, whichever weights it uses."""
        return [KVCache() for _ in self.layers]

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
        caches = self.new_caches() if caches is None else caches
        if len(caches) != len(self.layers):
            raise ValueError(f"{len(caches)} caches were given for {len(self.layers)} layers")
        x = self.embedding(tokens)  # N x L x E
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        x = self.norm(x if all_positions else x[:, -1:])
        return self.head(x)
