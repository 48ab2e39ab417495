"""The Qwen3 model with a cache for each layer, and scores for the last token alone."""

import mlx.core as mx

from ..config import ModelConfig
from .attention import Qwen3CachedAttention
from .cache import KVCache
from .decoder import Decoder
from .parts import DENSE, Dense


class Qwen3CachedModel(Decoder):
    """Token ids in, logits for the next token out; each token is read once."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense = DENSE) -> None:
        """Build the layers.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint, as `Qwen3Model` takes them.
            parts: makes all matrices of the weights: the embedding, the projections, the head.

        Raises:
            KeyError: a weight is missing.
        """
        raise NotImplementedError("2.1.3 The model with caches")

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each layer, for one text or one batch of texts. The model itself keeps none."""
        raise NotImplementedError("2.1.3 The model with caches")

    def __call__(self, tokens: mx.array, caches: list[KVCache] | None = None, all_positions: bool = False) -> mx.array:
        """Read tokens, and score every token of the vocabulary as the next one.

        Args:
            tokens: N x L, integers: those that the caches do not hold yet.
            caches: one for each layer, as `new_caches` gives them, which then hold these tokens, too. None if the
                tokens are the whole text, of which nothing is to be kept.
            all_positions: whether to score after each of the L tokens. Else it is done after the last one alone, and
                no more is computed.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the dtype that all weights share: to rounding
            what `Qwen3Model` gives there for the whole text, however it was cut into calls.

        Raises:
            ValueError: there are more or fewer caches than layers, or more tokens than the config's
                max_position_embeddings, with those that the caches hold.
        """
        raise NotImplementedError("2.1.3 The model with caches")
