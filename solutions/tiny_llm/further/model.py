"""Week 2's model, with optional windows, scaled RoPE and experts per layer."""

import mlx.core as mx

from ..experts.moe import SparseMoE
from ..local_attention.cache import RollingCache
from ..long_context.scaling import rope_of
from ..positional_encoding import RoPE
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.decoder import Decoder, Mlp, SwiGLU
from ..qwen3_cached.parts import DENSE
from .attention import Cache, FurtherAttention, RopeFn
from .config import FurtherConfig


class FurtherModel(Decoder):
    """Token ids in, next-token logits out; each token is computed once."""

    def __init__(self, config: FurtherConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers, with only the parts that the config needs.

        Args:
            config: the model's.
            weights: by the names of a checkpoint, as `Qwen3Model` takes them. Instead of an MLP's weights, a layer with
                experts has `mlp.gate.weight` (X x E, the router) and all experts' weights, stacked:
                `mlp.switch_mlp.gate_proj.weight` and `up_proj` (X x I x E), `down_proj` (X x E x I).

        Raises:
            KeyError: a weight is missing.
        """
        self.config, rope = config, _rope(config)
        super().__init__(
            config.base,
            weights,
            DENSE,
            lambda number, own: FurtherAttention(config, own, rope, config.windows[number]),
            lambda number, own: _mlp(config, own, number),
        )

    def new_caches(self) -> list[Cache]:
        """Return an empty cache per layer, for one sequence or one batch; a window layer's holds only what it sees."""
        sinks = self.config.sinks
        return [KVCache() if window is None else RollingCache(window, sinks) for window in self.config.windows]

    def __call__(self, tokens: mx.array, caches: list[Cache] | None = None, all_positions: bool = False) -> mx.array:
        """Run the model over new tokens and return next-token logits, as `Qwen3CachedModel` does.

        Args:
            tokens, all_positions: as for `Qwen3CachedModel`.
            caches: from `new_caches`; None if nothing is to be kept.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the dtype that all weights share. Up to rounding
            they do not depend on how the sequence is split into calls. With dynamic RoPE scaling that holds only up to
            the trained length: beyond it, each new token changes the frequencies of all earlier ones.

        Raises:
            ValueError: as `Qwen3CachedModel`.

        Source: `transformers.Qwen3MoeForCausalLM`, `transformers.Qwen3ForCausalLM`.
        """
        caches = self.new_caches() if caches is None else caches
        if len(caches) != len(self.layers):
            raise ValueError(f"{len(caches)} caches were given for {len(self.layers)} layers")
        if (end := caches[0].offset + tokens.shape[1]) > self.config.max_position_embeddings:
            raise ValueError(f"{end} tokens are more than the {self.config.max_position_embeddings} of the config")
        x = self.embedding(tokens)  # N x L x E
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache)
        return self.head(self.norm(x if all_positions else x[:, -1:]))


def _rope(config: FurtherConfig) -> RopeFn:
    """Return the RoPE of all layers; unscaled, it is week 1's."""
    base = config.base
    if config.scaled:
        return rope_of(config.entries)
    return RoPE(base.head_dim, base.max_position_embeddings, base.rope_theta)


def _mlp(config: FurtherConfig, weights: dict[str, mx.array], number: int) -> Mlp:
    """Return the MLP or the experts of a layer."""
    if config.experts is None or number not in config.experts.layers:
        return SwiGLU(weights, DENSE)
    w_gate, w_up, w_down = (weights[f"mlp.switch_mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    return SparseMoE(weights["mlp.gate.weight"], w_gate, w_up, w_down, config.experts.top_k, config.experts.normalize)
