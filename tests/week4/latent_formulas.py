"""Multi-head latent attention in NumPy float64, and small random layers of it.

A layer's dimensions all differ, no norm's weight is one, and theta is no default.
"""

import dataclasses
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np
from tests.week1.formulas import causal64, linear64, rms_norm64, rope64, softmax64

from tiny_llm_course.testkit.again import backwards
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.rounding import Array64, Round, exact, to_float64

EPS = 1e-6

# as a config.json states them; queries are projected from x directly, or through their own latent
PLAIN: dict[str, Any] = {
    "hidden_size": 20,
    "num_attention_heads": 3,
    "kv_lora_rank": 7,
    "qk_nope_head_dim": 5,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "q_lora_rank": None,
    "rope_theta": 500.0,
    "max_position_embeddings": 96,
}
COMPRESSED: dict[str, Any] = {**PLAIN, "q_lora_rank": 10}

LETTERS = {
    "E": "hidden_size",
    "H": "num_attention_heads",
    "C": "kv_lora_rank",
    "D_nope": "qk_nope_head_dim",
    "D_rope": "qk_rope_head_dim",
    "D_v": "v_head_dim",
    "Q": "q_lora_rank",
}


@dataclasses.dataclass(frozen=True)
class LatentLayer:
    """The contents of a config.json, and a layer's weights under a checkpoint's names."""

    config: dict[str, Any]
    weights: dict[str, mx.array]

    @property
    def dtype(self) -> mx.Dtype:
        """The dtype of all weights."""
        return self.weights["self_attn.o_proj.weight"].dtype

    @cached_property
    def weights64(self) -> dict[str, Array64]:
        """Return the weights for the formulas, without `self_attn.` and `.weight`."""
        return {name.split(".")[1]: to_float64(w) for name, w in self.weights.items() if name.startswith("self_attn.")}

    def with_weights(self, **changed: mx.array) -> "LatentLayer":
        """Return the same layer with some weights replaced, named as in `weights64`."""
        return LatentLayer(self.config, self.weights | {f"self_attn.{name}.weight": w for name, w in changed.items()})

    def backwards(self) -> "LatentLayer":
        """Return the same dimensions with other weights: these, with every axis reversed."""
        return LatentLayer(self.config, {name: backwards(w) for name, w in self.weights.items()})

    def __str__(self) -> str:
        """Return the description for a failing case."""
        sizes = [f"{letter} {self.config[name]}" for letter, name in LETTERS.items() if self.config[name] is not None]
        return f"MLA (theta {self.config['rope_theta']:.0f}, {', '.join(sizes)})"


def random_layer(config: dict[str, Any], seed: int, dtype: mx.Dtype = mx.float32, **changes: Any) -> LatentLayer:
    """Return a layer with seeded weights; `changes` are entries of the config."""
    c = {**config, **changes}
    draw = normals(seed, dtype)
    hidden, heads, latent, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"], c["q_lora_rank"]
    nope, rope, values = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]

    def matrix(outputs: int, inputs: int) -> mx.array:
        return draw(outputs, inputs, spread=inputs**-0.5)

    weights = {
        "kv_a_proj_with_mqa": matrix(latent + rope, hidden),
        "kv_a_layernorm": 1 + draw(latent, spread=0.3),
        "kv_b_proj": matrix(heads * (nope + values), latent),
        "o_proj": matrix(hidden, heads * values),
    }
    if rank is None:
        weights["q_proj"] = matrix(heads * (nope + rope), hidden)
    else:
        weights["q_a_proj"] = matrix(rank, hidden)
        weights["q_a_layernorm"] = 1 + draw(rank, spread=0.3)
        weights["q_b_proj"] = matrix(heads * (nope + rope), rank)
    return LatentLayer(c, {f"self_attn.{name}.weight": w for name, w in weights.items()})


def turned64(x: Array64, first: int, layer: LatentLayer, r: Round) -> Array64:
    """Apply RoPE to x, N x L x H x D_rope, whose first token is at position `first`."""
    positions = [range(first, first + x.shape[1])] * len(x)
    return rope64(x, positions, layer.config["rope_theta"], traditional=True, r=r)


def queries64(x: Array64, layer: LatentLayer, first: int = 0, *, r: Round = exact) -> tuple[Array64, Array64]:
    """Return the queries' parts without and with RoPE, N x L x H x D_nope and N x L x H x D_rope."""
    c, w = layer.config, layer.weights64
    if c["q_lora_rank"] is not None:
        x = rms_norm64(linear64(x, w["q_a_proj"], r=r), w["q_a_layernorm"], EPS, r=r)
    query = linear64(x, w["q_b_proj" if c["q_lora_rank"] is not None else "q_proj"], r=r)
    query = query.reshape(*query.shape[:2], c["num_attention_heads"], -1)
    nope = c["qk_nope_head_dim"]
    return query[..., :nope], turned64(query[..., nope:], first, layer, r)


def latents64(x: Array64, layer: LatentLayer, first: int = 0, *, r: Round = exact) -> tuple[Array64, Array64]:
    """Return the latents and the RoPE keys, N x L x C and N x L x D_rope."""
    c, w = layer.config, layer.weights64
    both = linear64(x, w["kv_a_proj_with_mqa"], r=r)
    latent = rms_norm64(both[..., : c["kv_lora_rank"]], w["kv_a_layernorm"], EPS, r=r)
    return latent, turned64(both[:, :, None, c["kv_lora_rank"] :], first, layer, r)[:, :, 0]


def expanded64(x: Array64, layer: LatentLayer, *, r: Round = exact) -> Array64:
    """The whole sequence at once, head by head, each with its own keys and values."""
    c, w = layer.config, layer.weights64
    query, query_rope = queries64(x, layer, r=r)
    latent, key_rope = latents64(x, layer, r=r)
    nope, values, length = c["qk_nope_head_dim"], c["v_head_dim"], x.shape[1]
    heads = []
    for h in range(c["num_attention_heads"]):
        own = w["kv_b_proj"][h * (nope + values) : (h + 1) * (nope + values)]
        key, value = linear64(latent, own[:nope], r=r), linear64(latent, own[nope:], r=r)
        scores = r(query[:, :, h] @ key.swapaxes(1, 2)) + r(query_rope[:, :, h] @ key_rope.swapaxes(1, 2))
        scores = r(r(scores) * (nope + c["qk_rope_head_dim"]) ** -0.5)
        heads.append(r(softmax64(scores + causal64(length, length), -1, r=r) @ value))
    return linear64(np.concatenate(heads, axis=-1), w["o_proj"], r=r)


def absorbed64(x: Array64, layer: LatentLayer, parts: object = None, *, r: Round = exact) -> Array64:
    """The same, reassociated: queries are multiplied by latents. Splitting the sequence into calls changes nothing."""
    c, w = layer.config, layer.weights64
    query, query_rope = queries64(x, layer, r=r)
    latent, key_rope = latents64(x, layer, r=r)
    nope, values, length = c["qk_nope_head_dim"], c["v_head_dim"], x.shape[1]
    heads = []
    for h in range(c["num_attention_heads"]):
        own = w["kv_b_proj"][h * (nope + values) : (h + 1) * (nope + values)]
        scores = r(query[:, :, h] @ own[:nope]) @ latent.swapaxes(1, 2) + query_rope[:, :, h] @ key_rope.swapaxes(1, 2)
        scores = r(r(scores) * (nope + c["qk_rope_head_dim"]) ** -0.5)
        seen = r(softmax64(scores + causal64(length, length), -1, r=r) @ latent)
        heads.append(linear64(seen, own[nope:], r=r))
    return linear64(np.concatenate(heads, axis=-1), w["o_proj"], r=r)
