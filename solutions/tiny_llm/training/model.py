"""The one decoder, as a function of its weights: what training differentiates and serving loads are the same model."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..config import ModelConfig
from ..layer_norm import RMSNorm
from ..positional_encoding import rotation_angles
from ..qwen3_cached.decoder import Decoder
from ..qwen3_cached.parts import DENSE

Params = dict[str, mx.array]  # weights by the names of a checkpoint; gradients have the same keys


class PackedAttention:
    """Causal self-attention over rows that may hold several documents."""

    def __init__(self, config: ModelConfig, weights: Params) -> None:
        """Build the projections and norms from one layer's weights.

        Raises:
            KeyError: a weight that the architecture needs is missing.
        """
        qwen3 = config.model_type == "qwen3"
        self.projections = [DENSE.projection(weights, f"self_attn.{x}_proj", bias=not qwen3) for x in "qkv"]
        self.output = DENSE.projection(weights, "self_attn.o_proj")
        self.q_norm, self.k_norm = (
            RMSNorm(config.head_dim, weights[f"self_attn.{x}_norm.weight"], config.rms_norm_eps) if qwen3 else None
            for x in "qk"
        )
        self.head_dim = config.head_dim

    def __call__(self, x: mx.array, angles: tuple[mx.array, mx.array], mask: mx.array) -> mx.array:
        """Attend within each document.

        Args:
            x: N x L x E.
            angles: the cosines and sines of each token's position, each N x L x 1 x D/2.
            mask: additive, broadcasts to N x H x L x L.

        Returns:
            N x L x E.
        """
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key, value = (a.swapaxes(1, 2) for a in (rotate(query, *angles), rotate(key, *angles), value))
        attended = scaled_dot_product_attention_grouped(query, key, value, mask=mask)  # N x H x L x D
        return self.output(attended.swapaxes(1, 2).flatten(2))


def rotate(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Apply `RoPE` at any position of each token: x is N x L x H x D, cos and sin are N x L x 1 x D/2."""
    first, second = mx.split(x, 2, axis=-1)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


class TrainableModel(Decoder):
    """Logits of packed rows."""

    def __init__(self, config: ModelConfig, params: Params) -> None:
        """Build the layers around the parameters, which may be the arrays that `mx.value_and_grad` traces.

        Raises:
            KeyError: a weight is missing.
        """
        super().__init__(config, params, DENSE, lambda _, own: PackedAttention(config, own))
        self.config = config

    def __call__(self, tokens: mx.array, positions: mx.array, mask: mx.array) -> mx.array:
        """Return next-token logits.

        Args:
            tokens: N x L, integers.
            positions: N x L, integers: the position of each token in its document.
            mask: additive, N x 1 x L x L or what broadcasts to it: -inf where a token must not look.

        Returns:
            N x L x V. Up to rounding, those of `Qwen3CachedModel` for each document alone.
        """
        table = rotation_angles(self.config.head_dim, self.config.max_position_embeddings, self.config.rope_theta)
        angles = table[positions][:, :, None]  # N x L x 1 x D/2
        x = self.embedding(tokens)  # N x L x E
        for layer in self.layers:
            x = layer(x, (mx.cos(angles), mx.sin(angles)), mask)
        return self.head(self.norm(x))
