"""The fused engine: a layer is one operation, which runs from the stream to the stream without MLX in between."""

import mlx.core as mx

from ..config import ModelConfig
from ..positional_encoding import RoPE
from ..quantized.affine import dequantize
from ..quantized.parts import Packed, Quantized
from .model import Qwen3KernelModel
from .ops import BITS, GROUP_SIZES, extension, quantized_matmul


class FusedCache:
    """One layer's keys and values, in memory of the extension. `offset` is how many tokens there are."""

    def __init__(self) -> None:
        self.offset = 0
        self.memory = extension().new_cache()
        self.batch = 0
        # What the layer gave last. Whoever reads the memory needs it: MLX computes what is needed, and in that order.
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


class _Layer:
    """The arrays of one layer, in the order in which `layer` of extension/primitives.h takes them."""

    def __init__(self, config: ModelConfig, matrices: _Matrices, prefix: str, rope: RoPE) -> None:
        weights, attention, mlp = matrices.weights, f"{prefix}self_attn.", f"{prefix}mlp."
        norms = [weights[f"{prefix}{name}_layernorm.weight"] for name in ("input", "post_attention")]
        if config.model_type == "qwen3":
            around = [weights[f"{attention}{x}_norm.weight"] for x in "qk"] + [mx.zeros(0)]
        else:
            around = [mx.zeros(0), mx.zeros(0), mx.concatenate([weights[f"{attention}{x}_proj.bias"] for x in "qkv"])]
        self.weights = [mx.contiguous(v.astype(mx.float32)) for v in [*norms, *around, rope.cos, rope.sin]]
        self.weights += matrices.of(*(f"{attention}{x}_proj" for x in "qkv")) + matrices.of(f"{attention}o_proj")
        self.weights += matrices.of(f"{mlp}gate_proj", f"{mlp}up_proj") + matrices.of(f"{mlp}down_proj")
        mx.eval(self.weights)  # a layer at a time, so that what it takes on the way is free again
        self.head_dim, self.eps, self.group_size = config.head_dim, config.rms_norm_eps, matrices.group_size

    def __call__(self, x: mx.array, cache: FusedCache, int8: bool) -> mx.array:
        batch, length, _ = x.shape
        if cache.offset and batch != cache.batch:
            raise ValueError(f"{batch} rows were given, but the cache has {cache.batch}")
        y: mx.array = extension().layer(
            x, self.weights, cache.memory, cache.last, cache.offset, self.head_dim, self.eps, self.group_size, int8
        )
        cache.offset, cache.batch, cache.last = cache.offset + length, batch, y
        return y


class Qwen3FusedModel:
    """`Qwen3CachedModel` with quantized matrices, in one operation a layer."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], int8: bool = False) -> None:
        """Build the layers.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint.
            int8: whether the activations of a single token may be rounded to 8 bits.

        Raises:
            KeyError: a weight is missing.
            ValueError: a matrix is not quantized to 4 bits.
        """
        self.config, self.int8 = config, int8
        matrices = _Matrices(config, weights)
        self.group_size, self.table = matrices.group_size, matrices.of("model.embed_tokens")
        self.head = self.table if config.tie_word_embeddings else matrices.of("lm_head")
        self.norm, self.dtype = weights["model.norm.weight"].astype(mx.float32), weights["model.norm.weight"].dtype
        rope = RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)
        numbers = range(config.num_hidden_layers)
        self.layers = [_Layer(config, matrices, f"model.layers.{number}.", rope) for number in numbers]

    def new_caches(self) -> list[FusedCache]:
        """An empty cache for each layer."""
        return [FusedCache() for _ in self.layers]

    def __call__(
        self, tokens: mx.array, caches: list[FusedCache] | None = None, all_positions: bool = False
    ) -> mx.array:
        """Read tokens, and score every token of the vocabulary as the next one, as `Qwen3CachedModel` does.

        Args:
            tokens: N x L, integers: those that the caches do not hold yet.
            caches: one for each layer, as `new_caches` gives them; None if nothing is to be kept.
            all_positions: whether to score after each of the L tokens, and not after the last one alone.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the weights' dtype.

        Raises:
            ValueError: there are more or fewer caches than layers, or more tokens than max_position_embeddings, with
                those that the caches hold.
        """
        caches = self.new_caches() if caches is None else caches
        if len(caches) != len(self.layers):
            raise ValueError(f"{len(caches)} caches were given for {len(self.layers)} layers")
        end, most = caches[0].offset + tokens.shape[1], self.config.max_position_embeddings
        if end > most:
            raise ValueError(f"{end} tokens are more than max_position_embeddings = {most}")
        packed, scales, biases = (array[tokens] for array in self.table)
        x = dequantize(packed, scales, biases, self.group_size, BITS)  # N x L x E
        x = x.astype(self.dtype).astype(mx.float32)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, self.int8)
        x = mx.fast.rms_norm(x if all_positions else x[:, -1:], self.norm, self.config.rms_norm_eps)
        packed, scales, biases = self.head
        return quantized_matmul(x, packed, scales, biases, self.group_size, int8=self.int8).astype(self.dtype)


def fused_if_packed(config: ModelConfig, weights: dict[str, mx.array]) -> Qwen3FusedModel | Qwen3KernelModel:
    """The fused model, or `Qwen3KernelModel` where a matrix is not of 4 bits in whole groups.

    Raises:
        KeyError: a weight is missing.
    """
    try:
        return Qwen3FusedModel(config, weights)
    except ValueError:
        return Qwen3KernelModel(config, weights)
