"""The fused engine: a layer is one operation, which runs from the stream to the stream without MLX in between."""

import mlx.core as mx

from ..config import ModelConfig
from ..positional_encoding import RoPE
from .model import Quantized
from .ops import extension


class FusedCache:
    """One layer's keys and values, in memory that `layer` writes to in place. `offset` is how many tokens there are."""

    def __init__(self, config: ModelConfig, block: int = 256) -> None:
        """Begin with nothing. Room is made for a multiple of `block` tokens."""
        self.offset = 0
        self._block, self._heads, self._dims = block, config.num_key_value_heads, config.head_dim
        self.keys = self.values = mx.zeros((1, self._heads, 0, self._dims))  # N x H_kv x room x D

    def make_room(self, batch: int, length: int) -> None:
        """Have room for some more tokens in each of `batch` rows.

        Raises:
            ValueError: there are tokens of another number of rows.
        """
        rows, _, room, _ = self.keys.shape
        if batch != rows and self.offset:
            raise ValueError(f"{batch} rows were given, but the cache has {rows}")
        if batch != rows or self.offset + length > room:
            wanted = -(-(self.offset + length) // self._block) * self._block
            more = mx.zeros((batch, self._heads, wanted - self.offset, self._dims))
            self.keys, self.values = (
                mx.concatenate([kept[:, :, : self.offset], more], axis=2) if self.offset else more
                for kept in (self.keys, self.values)
            )

    def rewind(self, count: int) -> None:
        """Forget the last tokens, as `KVCache.rewind` does."""
        if not 0 <= count <= self.offset:
            raise ValueError(f"{count} tokens cannot be forgotten of {self.offset}")
        self.offset -= count


class _Layer:
    """The arrays of one layer, in the order in which `layer` of extension/primitives.h takes them."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], rope: RoPE) -> None:
        qwen3, none = config.model_type == "qwen3", mx.zeros(0)
        names = ["input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"]
        norms = [weights[f"{name}.weight"] for name in names[: 4 if qwen3 else 2]]
        biases = [] if qwen3 else [mx.concatenate([weights[f"self_attn.{x}_proj.bias"] for x in "qkv"])]
        vectors = [*norms, none] if qwen3 else [*norms, none, none, *biases]
        attention, mlp = ([Quantized.of(weights, f"{part}_proj") for part in parts] for parts in (_ATTENTION, _MLP))
        matrices = [Quantized.stacked(attention[:3]), attention[3], Quantized.stacked(mlp[:2]), mlp[2]]
        self.group_size = matrices[0].group_size
        self.weights = [mx.contiguous(v.astype(mx.float32)) for v in [*vectors, rope.cos, rope.sin]]
        self.weights += [mx.contiguous(array) for matrix in matrices for array in matrix[:3]]
        self.head_dim, self.eps = config.head_dim, config.rms_norm_eps

    def __call__(self, x: mx.array, cache: FusedCache, int8: bool) -> mx.array:
        batch, length, _ = x.shape
        cache.make_room(batch, length)
        y, cache.keys, cache.values = extension().layer(
            x, cache.keys, cache.values, self.weights, cache.offset, self.head_dim, self.eps, self.group_size, int8
        )
        cache.offset += length
        return y


_ATTENTION = [f"self_attn.{x}" for x in "qkvo"]
_MLP = ["mlp.gate", "mlp.up", "mlp.down"]


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
        self.table = Quantized.of(weights, "model.embed_tokens")
        self.head = self.table if config.tie_word_embeddings else Quantized.of(weights, "lm_head")
        self.norm = weights["model.norm.weight"].astype(mx.float32)
        self.dtype = weights["model.norm.weight"].dtype
        rope = RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)
        self.layers = []
        for number in range(config.num_hidden_layers):
            prefix = f"model.layers.{number}."
            own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            self.layers.append(_Layer(config, own, rope))

    def new_caches(self) -> list[FusedCache]:
        """An empty cache for each layer."""
        return [FusedCache(self.config) for _ in self.layers]

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
        x = self.table.rows(tokens).astype(mx.float32)  # N x L x E
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, self.int8)
        x = mx.fast.rms_norm(x if all_positions else x[:, -1:], self.norm, self.config.rms_norm_eps)
        return self.head(x, self.int8).astype(self.dtype)
