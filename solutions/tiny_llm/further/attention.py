"""Attention of new tokens with a cache: to all that were read, or to a window of them, with RoPE as it is scaled."""

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
Turn = Callable[[mx.array, slice], mx.array]  # N x L x H x D and the positions of the L tokens -> the same shape


class FurtherAttention:
    """One layer's attention."""

    def __init__(self, config: FurtherConfig, weights: dict[str, mx.array], turn: Turn, window: int | None) -> None:
        """Make the projections and norms.

        Args:
            config: the model's measures.
            weights: of one layer, by the names that `Qwen3TransformerBlock` takes.
            turn: RoPE.
            window: the tokens that one sees, itself among them; None for all.

        Raises:
            KeyError: a weight that the architecture needs is missing.
        """
        measures = config.measures
        self.projections = [DENSE.projection(weights, f"self_attn.{x}_proj", bias=config.biases) for x in "qkv"]
        self.output = DENSE.projection(weights, "self_attn.o_proj")
        self.q_norm, self.k_norm = (
            RMSNorm(measures.head_dim, weights[f"self_attn.{x}_norm.weight"], measures.rms_norm_eps)
            if config.norms
            else None
            for x in "qk"
        )
        self.head_dim, self.turn, self.late = measures.head_dim, turn, config.late
        self.window, self.sinks = window, config.sinks

    def __call__(self, x: mx.array, cache: Cache) -> mx.array:
        """Attend to what the cache gives, and to the new tokens up to each one itself.

        Args:
            x, cache: as for `Qwen3CachedAttention`.

        Returns:
            N x L x E, in the dtype that x and the weights share.
        """
        # N x L x H x D, and twice N x L x H_kv x D
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        end = cache.offset + x.shape[1]
        query = self.turn(query, slice(cache.offset, end))
        if not self.late:
            key = self.turn(key, slice(cache.offset, end))
        keys, values = cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))  # N x H_kv x S x D
        if self.late:  # by the paces of this length, as the queries are: dot products then depend on distances alone
            keys = self.turn(keys.swapaxes(1, 2), slice(0, end)).swapaxes(1, 2)
        attended = self._attend(query.swapaxes(1, 2), keys, values)  # N x H x L x D
        return self.output(attended.swapaxes(1, 2).flatten(2))

    def _attend(self, query: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        if self.window is None:
            return scaled_dot_product_attention_grouped(query, keys, values, mask="causal")
        if query.shape[2] == 1:  # its cache has forgotten what it may not see
            return scaled_dot_product_attention_grouped(query, keys, values)
        return windowed_attention(query, keys, values, self.window, self.sinks)
