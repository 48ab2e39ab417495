"""The model: week 2's, whose layers may each see a window only, or have experts in the place of their MLP."""

import mlx.core as mx

from ..experts.moe import SparseMoE
from ..local_attention.cache import RollingCache
from ..long_context.scaling import rope_of
from ..positional_encoding import RoPE
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.decoder import Decoder, Mlp, SwiGLU
from ..qwen3_cached.parts import DENSE
from .attention import Cache, FurtherAttention, Turn
from .config import FurtherConfig


class FurtherModel(Decoder):
    """Token ids in, logits for the next token out; each token is read once."""

    def __init__(self, config: FurtherConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers. Only the parts are made that the config asks for.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint, as `Qwen3Model` takes them. A layer with experts has, in the place of
                the MLP's, `mlp.gate.weight` (X x E, the router) and those of all experts, stacked:
                `mlp.switch_mlp.gate_proj.weight` (X x I x E; up alike; down X x E x I).

        Raises:
            KeyError: a weight is missing.
        """
        self.config, turn = config, _rope(config)
        super().__init__(
            config.measures,
            weights,
            DENSE,
            lambda number, own: FurtherAttention(config, own, turn, config.windows[number]),
            lambda number, own: _mlp(config, own, number),
        )

    def new_caches(self) -> list[Cache]:
        """An empty cache for each layer, for one text or one batch of texts; a window's keeps no more than it sees."""
        sinks = self.config.sinks
        return [KVCache() if window is None else RollingCache(window, sinks) for window in self.config.windows]

    def __call__(self, tokens: mx.array, caches: list[Cache] | None = None, all_positions: bool = False) -> mx.array:
        """Read tokens, and score every token of the vocabulary as the next one, as `Qwen3CachedModel` does.

        Args:
            tokens, all_positions: as for `Qwen3CachedModel`.
            caches: as `new_caches` gives them; None if nothing is to be kept.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the dtype that all weights share. However a text
            is cut into calls, they are the same to rounding; with dynamic RoPE scaling that holds up to the length that
            the model was trained with, since past it each further token changes all that came before.

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


def _rope(config: FurtherConfig) -> Turn:
    """RoPE for all layers; where nothing is scaled it is week 1's."""
    measures = config.measures
    if config.scaled:
        return rope_of(config.entries)
    return RoPE(measures.head_dim, measures.max_position_embeddings, measures.rope_theta)


def _mlp(config: FurtherConfig, weights: dict[str, mx.array], number: int) -> Mlp:
    """What stands behind the attention in the layer of this number."""
    if config.experts is None or number not in config.experts.layers:
        return SwiGLU(weights, DENSE)
    w_gate, w_up, w_down = (weights[f"mlp.switch_mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    return SparseMoE(weights["mlp.gate.weight"], w_gate, w_up, w_down, config.experts.top_k, config.experts.normalize)
