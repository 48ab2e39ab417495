"""The model: week 2's, whose layers may each see a window only, or have experts in the place of their MLP."""

from collections.abc import Callable

import mlx.core as mx

from ..basics import silu
from ..experts.moe import SparseMoE
from ..layer_norm import RMSNorm
from ..local_attention.cache import RollingCache
from ..long_context.scaling import rope_of
from ..positional_encoding import RoPE
from ..qwen3_cached.cache import KVCache
from ..qwen3_cached.parts import DENSE
from .attention import Cache, FurtherAttention, Turn
from .config import FurtherConfig

Mlp = Callable[[mx.array], mx.array]


class FurtherModel:
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
        measures = config.measures
        self.config = config
        self.embedding = DENSE.embedding(weights, "model.embed_tokens", measures)
        turn = _rope(config)
        self.layers = []
        for number in range(measures.num_hidden_layers):
            prefix = f"model.layers.{number}."
            own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            attention = FurtherAttention(config, own, turn, config.windows[number])
            self.layers.append(_Layer(config, own, attention, _mlp(config, own, number)))
        self.norm = RMSNorm(measures.hidden_size, weights["model.norm.weight"], measures.rms_norm_eps)
        tied = measures.tie_word_embeddings
        self.head = self.embedding.as_linear if tied else DENSE.projection(weights, "lm_head")

    def new_caches(self) -> list[Cache]:
        """An empty cache for each layer, for one text or one batch of texts; a window's keeps no more than it sees."""
        sinks = self.config.sinks
        return [KVCache() if window is None else RollingCache(window, sinks) for window in self.config.windows]

    def __call__(self, tokens: mx.array, caches: list[Cache] | None = None, all_positions: bool = False) -> mx.array:
        """Read tokens, and score every token of the vocabulary as the next one.

        Args:
            tokens: N x L, integers: those that the caches do not hold yet.
            caches: one for each layer, as `new_caches` gives them, which then hold these tokens, too. None if the
                tokens are the whole text, of which nothing is to be kept.
            all_positions: whether to score after each of the L tokens. Else it is done after the last one alone, and
                no more is computed.

        Returns:
            The logits, N x 1 x V, or N x L x V for all positions, in the dtype that all weights share. However a text
            is cut into calls, they are the same to rounding; with dynamic RoPE scaling that holds up to the length that
            the model was trained with, since past it each further token changes all that came before.

        Raises:
            ValueError: there are more or fewer caches than layers, or more tokens than the config's
                max_position_embeddings, with those that the caches hold.

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
        x = self.norm(x if all_positions else x[:, -1:])
        return self.head(x)


class _Layer:
    """Attention, then an MLP or experts, each on a normalised copy of the stream and added back to it."""

    def __init__(
        self, config: FurtherConfig, weights: dict[str, mx.array], attention: FurtherAttention, mlp: Mlp
    ) -> None:
        size, eps = config.measures.hidden_size, config.measures.rms_norm_eps
        self.attention_norm = RMSNorm(size, weights["input_layernorm.weight"], eps)
        self.attention = attention
        self.mlp_norm = RMSNorm(size, weights["post_attention_layernorm.weight"], eps)
        self.mlp = mlp

    def __call__(self, x: mx.array, cache: Cache) -> mx.array:
        h = x + self.attention(self.attention_norm(x), cache)
        return h + self.mlp(self.mlp_norm(h))


def _rope(config: FurtherConfig) -> Turn:
    """RoPE for all layers; where nothing is scaled it is week 1's."""
    measures = config.measures
    if config.scaled:
        return rope_of(config.entries)
    return RoPE(measures.head_dim, measures.max_position_embeddings, measures.rope_theta)


def _mlp(config: FurtherConfig, weights: dict[str, mx.array], number: int) -> Mlp:
    """What stands behind the attention in the layer of this number."""
    names = ("gate", "up", "down")
    if config.experts and number in config.experts.layers:
        w_gate, w_up, w_down = (weights[f"mlp.switch_mlp.{name}_proj.weight"] for name in names)
        router, chosen = weights["mlp.gate.weight"], config.experts
        return SparseMoE(router, w_gate, w_up, w_down, chosen.top_k, chosen.normalize)
    gate, up, down = (DENSE.projection(weights, f"mlp.{name}_proj") for name in names)
    return lambda x: down(silu(gate(x)) * up(x))
