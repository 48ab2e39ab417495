"""The fused engine: from tokens to logits it is one operation, without MLX in between."""

from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..positional_encoding import RoPE
from ..quantized.parts import Packed, Quantized
from .model import Qwen3KernelModel
from .ops import BITS, GROUP_SIZES, extension


class FusedCache:
    """The keys and values of all layers, in memory of the extension. `offset` is how many tokens there are."""

    def __init__(self) -> None:
        self.offset = 0
        self.memory = extension().new_caches()
        self.batch = 0
        # What the model gave last. Whoever reads the memory needs it: MLX computes what is needed, and in that order.
        self.last = mx.zeros(0)

    def rewind(self, count: int) -> None:
        """Forget the last tokens, as `KVCache.rewind` does."""
        if not 0 <= count <= self.offset:
            raise ValueError(f"{count} tokens cannot be forgotten of {self.offset}")
        self.offset -= count


class _Matrices:
    """Finds quantized matrices of 4 bits among a checkpoint's weights."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        self.parts, self.weights = Quantized.like(config, weights), weights
        self.group_size = self.parts.group_size

    def of(self, *names: str) -> Packed:
        """Packed weights, scales and biases of some matrices below each other: a product with all at once.

        Raises:
            KeyError: one is missing.
            ValueError: one is not packed as the kernels take it.
        """
        found = [self.parts.packed(self.weights, name) for name in names]
        if self.parts.bits != BITS or self.group_size not in GROUP_SIZES or None in found:
            raise ValueError(f"{names[0]} is not of {BITS} bits in groups of 32, 64 or 128, which the kernels need")
        whole = filter(None, found)
        packed, scales, biases = (mx.contiguous(mx.concatenate([*arrays])) for arrays in zip(*whole, strict=True))
        return packed, scales, biases


def _layer(config: ModelConfig, matrices: _Matrices, prefix: str) -> list[mx.array]:
    """The arrays of one layer, in the order in which `HeldModel` of extension/primitives.h takes them."""
    weights, attention, mlp = matrices.weights, f"{prefix}self_attn.", f"{prefix}mlp."
    norms = [weights[f"{prefix}{name}_layernorm.weight"] for name in ("input", "post_attention")]
    if config.model_type == "qwen3":
        around = [weights[f"{attention}{x}_norm.weight"] for x in "qk"] + [mx.zeros(0)]
    else:
        around = [mx.zeros(0), mx.zeros(0), mx.concatenate([weights[f"{attention}{x}_proj.bias"] for x in "qkv"])]
    arrays = [_floats(v) for v in [*norms, *around]]
    arrays += matrices.of(*(f"{attention}{x}_proj" for x in "qkv")) + matrices.of(f"{attention}o_proj")
    arrays += matrices.of(f"{mlp}gate_proj", f"{mlp}up_proj") + matrices.of(f"{mlp}down_proj")
    mx.eval(arrays)  # a layer at a time, so that what it takes on the way is free again
    return arrays


def _floats(x: mx.array) -> mx.array:
    return mx.contiguous(x.astype(mx.float32))


def held_model(config: ModelConfig, weights: dict[str, mx.array]) -> Any:
    """The weights as the extension takes them, and holds them.

    Args:
        config: the model's measures.
        weights: by the names of a checkpoint.

    Raises:
        KeyError: a weight is missing.
        ValueError: a matrix is not quantized to 4 bits.
    """
    matrices = _Matrices(config, weights)
    table = matrices.of("model.embed_tokens")
    head = table if config.tie_word_embeddings else matrices.of("lm_head")
    rope = RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)
    arrays = [_floats(v) for v in (weights["model.norm.weight"], rope.cos, rope.sin)] + [*table, *head]
    for number in range(config.num_hidden_layers):
        arrays += _layer(config, matrices, f"model.layers.{number}.")
    mx.eval(arrays)
    return extension().new_model(arrays, config.head_dim, config.rms_norm_eps, matrices.group_size)


class Qwen3FusedModel:
    """`Qwen3CachedModel` with quantized matrices, in one operation."""

    def __init__(
        self, config: ModelConfig, weights: dict[str, mx.array], int8: bool = False, flash: bool = False
    ) -> None:
        """Gather the weights.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint.
            int8: whether the activations of a single token may be rounded to 8 bits.
            flash: whether attention goes block by block, `kernels/flash.cpp`, and not token by token.

        Raises:
            KeyError: a weight is missing.
            ValueError: a matrix is not quantized to 4 bits.
        """
        self.config, self.int8, self.flash = config, int8, flash
        self.dtype = weights["model.norm.weight"].dtype
        self.held = held_model(config, weights)

    def new_caches(self) -> list[FusedCache]:
        """An empty cache, which all layers share."""
        return [FusedCache()]

    def __call__(
        self, tokens: mx.array, caches: list[FusedCache] | None = None, all_positions: bool = False
    ) -> mx.array:
        """Read tokens, and score every token of the vocabulary as the next one, as `Qwen3CachedModel` does.

        Args:
            tokens: N x L, integers: those that the cache does not hold yet.
            caches: as `new_caches` gives them; None if nothing is to be kept.
            all_positions: whether to score after each of the L tokens, and not after the last one alone.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the weights' dtype.

        Raises:
            ValueError: there are no tokens, more rows or fewer than in the cache, or more tokens than
                max_position_embeddings, with those that the cache holds.
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
        logits: mx.array = extension().fused_model(tokens, self.held, cache.memory, cache.last, *settings)
        cache.offset, cache.batch, cache.last = end, batch, logits
        return logits.astype(self.dtype)


def fused_if_packed(
    config: ModelConfig, weights: dict[str, mx.array], flash: bool = False
) -> Qwen3FusedModel | Qwen3KernelModel:
    """The fused model, or `Qwen3KernelModel` where a matrix is not of 4 bits in whole groups.

    Raises:
        KeyError: a weight is missing.
    """
    try:
        return Qwen3FusedModel(config, weights, flash=flash)
    except ValueError:
        return Qwen3KernelModel(config, weights)
