"""Causal self-attention with a KV cache."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..config import ModelConfig
from ..layer_norm import RMSNorm
from ..positional_encoding import RoPE
from .cache import KVCache
from .parts import DENSE, Dense


class Qwen3CachedAttention:
    """`Qwen3MultiHeadAttention` over the new tokens only: earlier keys and values come from the cache."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense = DENSE) -> None:
        """Build the projections and norms.

        Args:
            config: its model_type decides between q/k norms (qwen3) and q/k/v biases (qwen2).
            weights: of one layer, by the names that `Qwen3TransformerBlock` takes. Names that do not begin with
                `self_attn.` are ignored.
            parts: builds the four projections. The norms are built here.

        Raises:
            KeyError: a weight that the architecture needs is missing.
        """
        raise NotImplementedError("2.1.2 Attention with a cache")

    def __call__(self, x: mx.array, cache: KVCache) -> mx.array:
        """Append the new keys and values to the cache; attend causally to everything in it.

        Args:
            x: N x L x E, the tokens at positions cache.offset to cache.offset + L - 1.
            cache: this layer's. It gets keys and values, N x H_kv x L x D each, in the dtype of the result.

        Returns:
            N x L x E, in the dtype that x and the weights share.

        Raises:
            ValueError: offset + L exceeds the config's max_position_embeddings. The cache is unchanged.

        Source: `mlx_lm.models.qwen3.Attention`.
        """
        raise NotImplementedError("2.1.2 Attention with a cache")
