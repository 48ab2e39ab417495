"""The fused engine: one MLX operation from tokens to logits."""

from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..positional_encoding import RoPE
from ..quantized.parts import Packed, Quantized
from .model import Qwen3KernelModel
from .ops import BITS, GROUP_SIZES, extension


class FusedCache:
    """The keys and values of all layers, in the extension's memory. `offset` is the number of cached tokens."""

    def __init__(self) -> None:
        self.offset = 0
        self.memory = extension().new_caches()
        self.batch = 0
        # The last logits. The next call takes them as an input, so that MLX runs the calls in order.
        self.last = mx.zeros(0)

    def rewind(self, count: int) -> None:
        """Drop the last tokens, as `KVCache.rewind` does."""
        if not 0 <= count <= self.offset:
            raise ValueError(f"cannot drop {count} of {self.offset} tokens")
        self.offset -= count


class _Matrices:
    """Finds 4-bit matrices among a checkpoint's weights."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        self.parts, self.weights = Quantized.like(config, weights), weights
        self.group_size = self.parts.group_size

    def stacked(self, *names: str) -> Packed:
        """Stack the rows of several matrices, for one product with all of them: packed weights, scales and biases.

        Raises:
            KeyError: a matrix is missing.
            ValueError: a matrix is not packed as the kernels need it.
        """
        found = [self.parts.packed(self.weights, name) for name in names]
        if self.parts.bits != BITS or self.group_size not in GROUP_SIZES or None in found:
            raise ValueError(f"{names[0]} is not of {BITS} bits in groups of 32, 64 or 128, which the kernels need")
        whole = filter(None, found)
        packed, scales, biases = (mx.contiguous(mx.concatenate([*arrays])) for arrays in zip(*whole, strict=True))
        return packed, scales, biases


def _layer(config: ModelConfig, matrices: _Matrices, prefix: str) -> list[mx.array]:
    """Return one layer's arrays, in the order in which `OwnedModel` of extension/primitives.h takes them."""
    weights, attention, mlp = matrices.weights, f"{prefix}self_attn.", f"{prefix}mlp."
    norms = [weights[f"{prefix}{name}_layernorm.weight"] for name in ("input", "post_attention")]
    if config.model_type == "qwen3":
        extras = [weights[f"{attention}{x}_norm.weight"] for x in "qk"] + [mx.zeros(0)]
    else:
        extras = [mx.zeros(0), mx.zeros(0), mx.concatenate([weights[f"{attention}{x}_proj.bias"] for x in "qkv"])]
    arrays = [_floats(v) for v in [*norms, *extras]]
    arrays += matrices.stacked(*(f"{attention}{x}_proj" for x in "qkv")) + matrices.stacked(f"{attention}o_proj")
    arrays += matrices.stacked(f"{mlp}gate_proj", f"{mlp}up_proj") + matrices.stacked(f"{mlp}down_proj")
    mx.eval(arrays)  # one layer at a time, which frees its intermediate arrays
    return arrays


def _floats(x: mx.array) -> mx.array:
    return mx.contiguous(x.astype(mx.float32))


def native_model(config: ModelConfig, weights: dict[str, mx.array]) -> Any:
    """Build the extension's model, an opaque handle that keeps the weights alive, from a checkpoint's weights.

    Raises:
        KeyError: a weight is missing.
        ValueError: a matrix is not quantized to 4 bits.
    """
    matrices = _Matrices(config, weights)
    table = matrices.stacked("model.embed_tokens")
    head = table if config.tie_word_embeddings else matrices.stacked("lm_head")
    rope = RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)
    arrays = [_floats(v) for v in (weights["model.norm.weight"], rope.cos, rope.sin)] + [*table, *head]
    for number in range(config.num_hidden_layers):
        arrays += _layer(config, matrices, f"model.layers.{number}.")
    mx.eval(arrays)
    return extension().new_model(arrays, config.head_dim, config.rms_norm_eps, matrices.group_size)


class Qwen3FusedModel:
    """`Qwen3CachedModel` with 4-bit matrices, as one operation."""

    def __init__(
        self, config: ModelConfig, weights: dict[str, mx.array], int8: bool = False, flash: bool = False
    ) -> None:
        """Build the extension's model.

        Args:
            config: the model's.
            weights: by the names of a checkpoint.
            int8: round activations to 8 bits, with a scale for each group.
            flash: use flash attention, `kernels/flash.cpp`, instead of attention token by token.

        Raises:
            KeyError: a weight is missing.
            ValueError: a matrix is not quantized to 4 bits.
        """
        self.config, self.int8, self.flash = config, int8, flash
        self.dtype = weights["model.norm.weight"].dtype
        self.native = native_model(config, weights)

    def new_caches(self) -> list[FusedCache]:
        """Return an empty cache, which all layers share."""
        return [FusedCache()]

    def __call__(
        self, tokens: mx.array, caches: list[FusedCache] | None = None, all_positions: bool = False
    ) -> mx.array:
        """Run the model over new tokens and return next-token logits, as `Qwen3CachedModel` does.

        Args:
            tokens: N x L, integers, not yet in the cache.
            caches: from `new_caches`; None if nothing is to be kept.
            all_positions: return logits for each of the L tokens, not only for the last one.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the weights' dtype.

        Raises:
            ValueError: there are no tokens, the number of rows is not the cache's, or cached and new tokens together
                exceed max_position_embeddings.
        """
        (cache,) = self.new_caches() if caches is None else caches
        batch, length = tokens.shape
        if not tokens.size:
            raise ValueError("no tokens were given, but a model continues at least one")
        end, most = cache.offset + length, self.config.max_position_embeddings
        if end > most:
            raise ValueError(f"{end} tokens are more than max_position_embeddings = {most}")
        if cache.offset and batch != cache.batch:
            raise ValueError(f"{batch} rows were given, but the cache has {cache.batch}")
        settings = cache.offset, all_positions, self.int8, self.flash
        logits: mx.array = extension().fused_model(tokens, self.native, cache.memory, cache.last, *settings)
        cache.offset, cache.batch, cache.last = end, batch, logits
        return logits.astype(self.dtype)


def fused_if_packed(
    config: ModelConfig, weights: dict[str, mx.array], int8: bool = False, flash: bool = False
) -> Qwen3FusedModel | Qwen3KernelModel:
    """Return the fused model, or `Qwen3KernelModel` if a matrix is not 4-bit in whole groups.

    Raises:
        KeyError: a weight is missing.
    """
    try:
        return Qwen3FusedModel(config, weights, int8, flash)
    except ValueError:
        return Qwen3KernelModel(config, weights)


def flash_if_packed(config: ModelConfig, weights: dict[str, mx.array]) -> Qwen3FusedModel | Qwen3KernelModel:
    """As `fused_if_packed`, with flash attention."""
    return fused_if_packed(config, weights, flash=True)


def int8_if_packed(config: ModelConfig, weights: dict[str, mx.array]) -> Qwen3FusedModel | Qwen3KernelModel:
    """As `flash_if_packed`, with activations rounded to 8 bits."""
    return fused_if_packed(config, weights, int8=True, flash=True)
