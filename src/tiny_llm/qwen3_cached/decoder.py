"""The decoder of every engine from week 2 on: week 1's, with pluggable attention and MLP."""

from collections.abc import Callable

import mlx.core as mx

from ..basics import silu
from ..config import ModelConfig
from ..layer_norm import RMSNorm
from .parts import Dense

Weights = dict[str, mx.array]
Attention = Callable[..., mx.array]  # takes the normalized residual stream and whatever else the model passes to layers
Mlp = Callable[[mx.array], mx.array]
Norm = Callable[[mx.array], mx.array]


class DecoderLayer:
    """`Qwen3TransformerBlock` with any attention and any MLP."""

    def __init__(self, config: ModelConfig, weights: Weights, attention: Attention, mlp: Mlp) -> None:
        """Build the two norms from one layer's weights, by the names that `Qwen3TransformerBlock` takes.

        Raises:
            KeyError: a norm's weight is missing.
        """
        size, eps = config.hidden_size, config.rms_norm_eps
        self.attention_norm: Norm = RMSNorm(size, weights["input_layernorm.weight"], eps)
        self.attention = attention
        self.mlp_norm: Norm = RMSNorm(size, weights["post_attention_layernorm.weight"], eps)
        self.mlp = mlp

    def __call__(self, x: mx.array, *context: object) -> mx.array:
        """Add attention's and the MLP's outputs to the residual stream, N.. x E; attention also gets the context."""
        h = x + self.attention(self.attention_norm(x), *context)
        return h + self.mlp(self.mlp_norm(h))


class SwiGLU:
    """`Qwen3MLP` with its three matrices built by `parts`."""

    def __init__(self, weights: Weights, parts: Dense) -> None:
        """Build the matrices from the weights of one layer."""
        self.gate, self.up, self.down = (parts.projection(weights, f"mlp.{x}_proj") for x in ("gate", "up", "down"))

    def __call__(self, x: mx.array) -> mx.array:
        """Map N.. x E to N.. x E."""
        return self.down(silu(self.gate(x)) * self.up(x))


class Decoder:
    """An `embedding`, the `layers`, the final `norm` and the `head`. Each model defines its own forward pass."""

    layer: type[DecoderLayer] = DecoderLayer

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        parts: Dense,
        attention: Callable[[int, Weights], Attention],
        mlp: Callable[[int, Weights], Mlp] | None = None,
    ) -> None:
        """Build the layers.

        Args:
            weights: by the names of a checkpoint, as `Qwen3Model` takes them.
            parts: builds the embedding, the head and the MLPs (through `SwiGLU`).
            attention: builds a layer's attention, given the layer's number, from 0, and its weights by their names
                within the layer.
            mlp: builds a layer's MLP in the same way; None for `SwiGLU`.

        Raises:
            KeyError: a weight is missing.
        """
        self.embedding = parts.embedding(weights, "model.embed_tokens", config)
        self.layers = []
        for number in range(config.num_hidden_layers):
            prefix = f"model.layers.{number}."
            own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            made = SwiGLU(own, parts) if mlp is None else mlp(number, own)
            self.layers.append(self.layer(config, own, attention(number, own), made))
        self.norm: Norm = RMSNorm(config.hidden_size, weights["model.norm.weight"], config.rms_norm_eps)
        self.head = self.embedding.as_linear if config.tie_word_embeddings else parts.projection(weights, "lm_head")
