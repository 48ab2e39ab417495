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
        # N x L x H x D, and twice N x L x H_kv x D
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        positions = slice(cache.offset, cache.offset + x.shape[1])
        query, key = self.rope(query, positions), self.rope(key, positions)
        keys, values = cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))  # N x H_kv x S x D
        attended = scaled_dot_product_attention_grouped(query.swapaxes(1, 2), keys, values, mask="causal")
        return self.output(attended.swapaxes(1, 2).flatten(2))
