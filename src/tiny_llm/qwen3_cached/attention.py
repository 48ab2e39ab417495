"""Attention of new tokens to all that were read before, without computing those again."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..config import ModelConfig
from ..layer_norm import RMSNorm
from ..positional_encoding import RoPE
from .cache import KVCache
from .parts import DENSE, Dense


class Qwen3CachedAttention:
    """What `Qwen3MultiHeadAttention` computes, of new tokens only: the cache knows the earlier ones."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense = DENSE) -> None:
        """Make the projections and norms.

        Args:
            config: the model's measures. Its model_type says whether there are q/k norms (qwen3) or biases (qwen2).
            weights: of one layer, by the names that `Qwen3TransformerBlock` takes; those that do not begin with
                `self_attn.` are left alone.
            parts: makes the four projections of the weights. The norms are small, and made here.

        Raises:
            KeyError: a weight that the architecture needs is missing.
        """
        raise NotImplementedError("2.1.2 Attention with a cache")

    def __call__(self, x: mx.array, cache: KVCache) -> mx.array:
        """Attend to what is in the cache, and to the new tokens up to each one itself.

        Args:
            x: N x L x E, the tokens at positions offset to offset + L - 1, where offset is the cache's.
            cache: this layer's. The keys and values of the new tokens are appended to it.

        Returns:
            N x L x E, in the dtype that x and the weights share.

        Raises:
            ValueError: offset + L is more than the config's max_position_embeddings. The cache stays as it was.

        Source: `mlx_lm.models.qwen3.Attention`.
        """
        raise NotImplementedError("2.1.2 Attention with a cache")
