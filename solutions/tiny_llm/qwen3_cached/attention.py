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
        qwen3 = config.model_type == "qwen3"
        self.projections = [parts.projection(weights, f"self_attn.{x}_proj", bias=not qwen3) for x in "qkv"]
        self.output = parts.projection(weights, "self_attn.o_proj")
        self.q_norm, self.k_norm = (
            RMSNorm(config.head_dim, weights[f"self_attn.{x}_norm.weight"], config.rms_norm_eps) if qwen3 else None
            for x in "qk"
        )
        self.head_dim = config.head_dim
        self.rope = RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)

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
        # query is N x L x H x D; key and value are N x L x H_kv x D
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        positions = slice(cache.offset, cache.offset + x.shape[1])
        query, key = self.rope(query, positions), self.rope(key, positions)
        keys, values = cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))  # N x H_kv x S x D
        attended = scaled_dot_product_attention_grouped(query.swapaxes(1, 2), keys, values, mask="causal")
        return self.output(attended.swapaxes(1, 2).flatten(2))
