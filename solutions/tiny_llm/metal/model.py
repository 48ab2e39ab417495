"""The model of stage `metal`: the decoder of week 2, with its layers computed by the Metal kernels."""

from functools import partial
from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..quantized.layers import QuantizedEmbedding, QuantizedLinear
from ..quantized.parts import Quantized
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.decoder import Decoder, DecoderLayer, SwiGLU
from .attention import flash_attention
from .ops import add_scaled, rms_norm, rope, swiglu
from .quantized import MOST, quantized_matrices, quantized_matvec, quantized_split, quantized_tiles

BITS = 4


def multiply(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int) -> mx.array:
    """Return x @ W.T for a 4-bit W, from N.. x I to N.. x O, by the kernel that suits the number of rows."""
    rows, w = x.reshape(-1, x.shape[-1]), (packed, scales, biases, group_size)
    if len(rows) == 1:
        y = quantized_matvec(rows[0], *w)
    elif len(rows) <= MOST:
        y = quantized_split(rows, *w)
    else:
        y = (quantized_tiles if mx.cuda.is_available() else quantized_matrices)(rows, *w)
    return y.reshape(*x.shape[:-1], len(packed))


class MetalLinear(QuantizedLinear):
    """`QuantizedLinear`, computed by the kernels if W has 4 bits."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return x @ W.T + b, from N.. x I to N.. x O."""
        if self.bits != BITS:
            return super().__call__(x)
        y = multiply(x, self.packed, self.scales, self.biases, self.group_size)
        return y if self.bias is None else y + self.bias.astype(x.dtype)


class MetalEmbedding(QuantizedEmbedding):
    """`QuantizedEmbedding` with its output head computed by the kernels if the table has 4 bits."""

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table, from N.. x E to N.. x V."""
        if self.bits != BITS:
            return super().as_linear(x)
        return multiply(x, self.packed, self.scales, self.biases, self.group_size)


class MetalParts(Quantized):
    """`Quantized` with 4-bit matrices multiplied by the kernels."""

    linear, table = MetalLinear, MetalEmbedding


class _Attention:
    """`Qwen3CachedAttention` by the kernels."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: MetalParts) -> None:
        qwen3, self.config = config.model_type == "qwen3", config
        self.projections = [parts.projection(weights, f"self_attn.{x}_proj", bias=not qwen3) for x in "qkv"]
        self.output = parts.projection(weights, "self_attn.o_proj")
        self.norms = [weights[f"self_attn.{x}_norm.weight"] for x in "qk"] if qwen3 else []

    def __call__(self, x: mx.array, cache: KVCache) -> mx.array:
        config = self.config
        query, key, value = (mx.unflatten(project(x), -1, (-1, config.head_dim)) for project in self.projections)
        if self.norms:
            query, key = (rms_norm(y, w, config.rms_norm_eps) for y, w in zip((query, key), self.norms, strict=True))
        query, key = (rope(y, cache.offset, config.rope_theta) for y in (query, key))
        keys, values = cache.update_and_fetch(key.swapaxes(1, 2), value.swapaxes(1, 2))  # N x H_kv x S x D
        attended = flash_attention(query.swapaxes(1, 2), keys, values, mask="causal")
        return self.output(attended.swapaxes(1, 2).flatten(2))


class _SwiGLU(SwiGLU):
    def __call__(self, x: mx.array) -> mx.array:
        return self.down(swiglu(mx.concatenate([self.gate(x), self.up(x)], axis=-1)))


class _Layer(DecoderLayer):
    """`DecoderLayer` with its norms and its residual additions by the kernels."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], *parts: Any) -> None:
        super().__init__(config, weights, *parts)
        self.attention_norm, self.mlp_norm = (
            partial(rms_norm, weight=weights[f"{name}_layernorm.weight"], eps=config.rms_norm_eps)
            for name in ("input", "post_attention")
        )

    def __call__(self, x: mx.array, *context: object) -> mx.array:
        h = add_scaled(x, self.attention(self.attention_norm(x), *context), 1)
        return add_scaled(h, self.mlp(self.mlp_norm(h)), 1)


class MetalModel(Decoder):
    """Token ids in, next-token logits out; each token is computed once, by the kernels."""

    layer = _Layer

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers from a checkpoint's weights, quantized or not, as `Qwen3QuantizedModel` does.

        Raises:
            KeyError: a weight is missing.
        """
        parts = MetalParts.like(config, weights)
        super().__init__(
            config, weights, parts, lambda _, own: _Attention(config, own, parts), lambda _, own: _SwiGLU(own, parts)
        )
        self.norm = partial(rms_norm, weight=weights["model.norm.weight"], eps=config.rms_norm_eps)
        self.longest = config.max_position_embeddings

    def new_caches(self) -> list[KVCache]:
        """Return an empty cache per layer, for one sequence or one batch."""
        return [KVCache() for _ in self.layers]

    def __call__(self, tokens: mx.array, caches: list[KVCache] | None = None, all_positions: bool = False) -> mx.array:
        """Run the model over new tokens and return next-token logits, as `Qwen3CachedModel` does."""
        caches = self.new_caches() if caches is None else caches
        if (end := caches[0].offset + tokens.shape[1]) > self.longest:
            raise ValueError(f"{end} tokens are more than max_position_embeddings = {self.longest}")
        x = self.embedding(tokens)  # N x L x E
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        return self.head(self.norm(x if all_positions else x[:, -1:]))
