"""Qwen3 with a KV cache per layer and, by default, logits for the last token only."""

import mlx.core as mx

from ..config import ModelConfig
from .attention import Qwen3CachedAttention
from .cache import KVCache
from .decoder import Decoder
from .parts import DENSE, Dense


class Qwen3CachedModel(Decoder):
    """Token ids in, next-token logits out; each token is computed once."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense = DENSE) -> None:
        """Build the layers.

        Args:
            weights: by the names of a checkpoint, as `Qwen3Model` takes them.
            parts: builds all matrices: the embedding, the projections, the head.

        Raises:
            KeyError: a weight is missing.
        """
        super().__init__(config, weights, parts, lambda _, own: Qwen3CachedAttention(config, own, parts))

    def new_caches(self) -> list[KVCache]:
        """Return an empty cache per layer, for one sequence or one batch. The model itself keeps none."""
        return [KVCache() for _ in self.layers]

    def __call__(self, tokens: mx.array, caches: list[KVCache] | None = None, all_positions: bool = False) -> mx.array:
        """Run the model over new tokens, append them to the caches, and return next-token logits.

        Args:
            tokens: N x L, integers, not yet in the caches.
            caches: one per layer, from `new_caches`. None if the tokens are the whole sequence and nothing is to be
                kept.
            all_positions: return logits for each of the L tokens. Otherwise only the last one's are computed.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the dtype that all weights share. Up to rounding
            they equal `Qwen3Model`'s for the whole sequence, however it is split into calls.

        Raises:
            ValueError: the number of caches is not the number of layers (the message states both), or cached and new
                tokens together exceed the config's max_position_embeddings.
        """
        caches = self.new_caches() if caches is None else caches
        if len(caches) != len(self.layers):
            raise ValueError(f"{len(caches)} caches were given for {len(self.layers)} layers")
        x = self.embedding(tokens)  # N x L x E
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        return self.head(self.norm(x if all_positions else x[:, -1:]))
