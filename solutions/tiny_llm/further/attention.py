"""Causal self-attention with a cache: full or sliding-window, with scaled RoPE."""

from collections.abc import Callable

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..layer_norm import RMSNorm
from ..local_attention.blocks import windowed_attention
from ..local_attention.cache import RollingCache
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.parts import DENSE
from .config import FurtherConfig

Cache = KVCache | RollingCache
RopeFn = Callable[[mx.array, slice], mx.array]  # N x L x H x D and the positions of the L tokens -> the same shape


class FurtherAttention:
    """One layer's attention."""

    def __init__(self, config: FurtherConfig, weights: dict[str, mx.array], rope: RopeFn, window: int | None) -> None:
        """Build the projections and norms.

        Args:
            config: the model's.
            weights: of one layer, by the names that `Qwen3TransformerBlock` takes.
            rope: as `RoPE` or `ScaledRoPE`.
            window: the number of tokens that a token sees, itself included; None for all.

        Raises:
            KeyError: a weight that the architecture needs is missing.
        """
        base = config.base
        self.projections = [DENSE.projection(weights, f"self_attn.{x}_proj", bias=config.biases) for x in "qkv"]
        self.output = DENSE.projection(weights, "self_attn.o_proj")
        self.q_norm, self.k_norm = (
            RMSNorm(base.head_dim, weights[f"self_attn.{x}_norm.weight"], base.rms_norm_eps) if config.norms else None
            for x in "qk"
        )
        self.head_dim, self.rope, self.rope_after_cache = base.head_dim, rope, config.rope_after_cache
        self.window, self.sinks = window, config.sinks

    def __call__(self, x: mx.array, cache: Cache) -> mx.array:
        """Append the new keys and values to the cache; attend causally to what it returns.

        Args:
            x, cache: as for `Qwen3CachedAttention`.

        Returns:
            N x L x E, in the dtype that x and the weights share.
        """
        # query is N x L x H x D; key and value are N x L x H_kv x D
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        end = cache.offset + x.shape[1]
        query = self.rope(query, slice(cache.offset, end))
        if not self.rope_after_cache:
            key = self.rope(key, slice(cache.offset, end))
        keys, values = cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))  # N x H_kv x S x D
        if self.rope_after_cache:  # with this length's frequencies, as the queries: scores depend on distances only
            keys = self.rope(keys.swapaxes(1, 2), slice(0, end)).swapaxes(1, 2)
        attended = self._attend(query.swapaxes(1, 2), keys, values)  # N x H x L x D
        return self.output(attended.swapaxes(1, 2).flatten(2))

    def _attend(self, query: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        if self.window is None:
            return scaled_dot_product_attention_grouped(query, keys, values, mask="causal")
        if query.shape[2] == 1:  # the rolling cache holds exactly what it may see
            return scaled_dot_product_attention_grouped(query, keys, values)
        return windowed_attention(query, keys, values, self.window, self.sinks)
