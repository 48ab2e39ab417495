"""A Qwen3 model whose layers share weights; each still has its own KV cache."""

import dataclasses

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.model import Qwen3CachedModel
from ..qwen3_cached.parts import DENSE, Dense
from .owners import weight_owner


class SharedLayersModel:
    """`Qwen3CachedModel` with fewer stored layers than a token passes through."""

    def __init__(
        self, config: ModelConfig, weights: dict[str, mx.array], distinct: int, order: str, parts: Dense = DENSE
    ) -> None:
        """Build the stored layers, and arrange them in the order of use.

        Args:
            config: num_hidden_layers is the number of layers a token passes through.
            weights: by the names of a checkpoint, with layers `model.layers.0.` to `model.layers.{distinct - 1}.`;
                other layers in the dictionary are ignored.
            distinct: the number of stored layers, a divisor of num_hidden_layers.
            order: how the layers share them, as `weight_owner` takes it.
            parts: builds all matrices, each once, however many layers use it.

        Raises:
            KeyError: a weight is missing.
            ValueError: as `weight_owner`.
        """
        layers = config.num_hidden_layers
        owners = [weight_owner(number, layers, distinct, order) for number in range(layers)]
        stored = Qwen3CachedModel(dataclasses.replace(config, num_hidden_layers=distinct), weights, parts)
        self.embedding, self.norm, self.head = stored.embedding, stored.norm, stored.head
        self.layers = [stored.layers[owner] for owner in owners]  # the same object several times

    def new_caches(self) -> list[KVCache]:
        """Return an empty cache for each layer that a token passes through, shared weights or not."""
        return [KVCache() for _ in self.layers]

    def __call__(self, tokens: mx.array, caches: list[KVCache] | None = None, all_positions: bool = False) -> mx.array:
        """Run the model over new tokens, append them to the caches, and return next-token logits.

        Args:
            tokens: N x L, integers, not yet in the caches.
            caches: one per layer, from `new_caches`; None if nothing is to be kept.
            all_positions: return logits for each of the L tokens, not only for the last one.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions. Up to rounding they equal those of `Qwen3CachedModel`
            for a file in which each layer has a copy of the weights that it uses here.

        Raises:
            ValueError: the number of caches is not the number of layers that a token passes through, or there are more
                tokens than the config's max_position_embeddings.
        """
        caches = self.new_caches() if caches is None else caches
        if len(caches) != len(self.layers):
            raise ValueError(f"{len(caches)} caches were given for {len(self.layers)} layers")
        x = self.embedding(tokens)  # N x L x E
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        x = self.norm(x if all_positions else x[:, -1:])
        return self.head(x)
