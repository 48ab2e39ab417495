"""Small random Qwen models, the embedded model, and their formulas in float64.

The random ones replace a checkpoint wherever a test needs a model. Their dimensions all differ, H * D is not E where
the architecture allows it, no norm weight is one, the two thetas differ, and eps is no default: every mix-up or
omission changes the output.
"""

import dataclasses
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.formulas import linear64, mlp64, qwen_attention64, rms_norm64

from tiny_llm_course.testkit.again import backwards
from tiny_llm_course.testkit.embedded import embedded_checkpoint
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.rounding import Array64, Round, exact, to_float64

# Entries of a config.json.
QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "intermediate_size": 20,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 8,
    "vocab_size": 29,
    "rms_norm_eps": 0.01,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 96,
    "tie_word_embeddings": False,
}
QWEN25: dict[str, Any] = {**QWEN3, "model_type": "qwen2", "hidden_size": 24, "head_dim": 4, "rope_theta": 5000.0}
by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])


@dataclasses.dataclass(frozen=True)
class ReferenceModel:
    """The contents of a config.json, and weights under checkpoint names."""

    config: dict[str, Any]
    weights: dict[str, mx.array]

    @property
    def dtype(self) -> mx.Dtype:
        """Of all weights."""
        return self.weights["model.norm.weight"].dtype

    def layer(self, number: int) -> dict[str, mx.array]:
        """One layer's weights, by their names within the layer."""
        prefix = f"model.layers.{number}."
        return {name.removeprefix(prefix): w for name, w in self.weights.items() if name.startswith(prefix)}

    @cached_property
    def weights64(self) -> dict[str, Array64]:
        """All weights, for the formulas."""
        return {name: to_float64(w) for name, w in self.weights.items()}

    def layer64(self, number: int) -> dict[str, Array64]:
        """One layer's weights, for the formulas."""
        prefix = f"model.layers.{number}."
        return {name.removeprefix(prefix): w for name, w in self.weights64.items() if name.startswith(prefix)}

    def with_weights(self, **changed: mx.array) -> "ReferenceModel":
        """The same model with some weights replaced or added."""
        return ReferenceModel(self.config, self.weights | changed)

    def without(self, name: str) -> "ReferenceModel":
        """The same model with one weight missing."""
        return ReferenceModel(self.config, {n: w for n, w in self.weights.items() if n != name})

    def backwards(self) -> "ReferenceModel":
        """The same dimensions with different weights: these, with every axis reversed."""
        return ReferenceModel(self.config, {name: backwards(w) for name, w in self.weights.items()})

    def __str__(self) -> str:
        """The name of the model in a failing case."""
        c = self.config
        letters = {
            "V": "vocab_size",
            "E": "hidden_size",
            "H": "num_attention_heads",
            "H_kv": "num_key_value_heads",
            "D": "head_dim",
            "I": "intermediate_size",
        }
        sizes = ", ".join(f"{letter} {c[name]}" for letter, name in letters.items())
        layers = f"{c['num_hidden_layers']} layer{'s' * (c['num_hidden_layers'] != 1)}"
        head = "tied" if c["tie_word_embeddings"] else "untied"
        name = "Qwen3" if c["model_type"] == "qwen3" else "Qwen2.5"
        return f"{name} ({layers}, theta {c['rope_theta']:.0f}, {head}, {sizes})"


def random_model(config: dict[str, Any], seed: int, dtype: mx.Dtype = mx.float32, **changes: Any) -> ReferenceModel:
    """Return a model with seeded weights; `changes` are entries of the config."""
    config = {**config, **changes}
    draw = normals(seed, dtype)
    hidden, inner, dims = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * dims, config["num_key_value_heads"] * dims

    def matrix(outputs: int, inputs: int) -> mx.array:
        return draw(outputs, inputs, spread=inputs**-0.5)

    def norm(size: int) -> mx.array:
        return 1 + draw(size, spread=0.3)

    weights = {"model.embed_tokens.weight": draw(config["vocab_size"], hidden)}
    for number in range(config["num_hidden_layers"]):
        layer = {
            "input_layernorm.weight": norm(hidden),
            "self_attn.q_proj.weight": matrix(queries, hidden),
            "self_attn.k_proj.weight": matrix(keys, hidden),
            "self_attn.v_proj.weight": matrix(keys, hidden),
            "self_attn.o_proj.weight": matrix(hidden, queries),
            "post_attention_layernorm.weight": norm(hidden),
            "mlp.gate_proj.weight": matrix(inner, hidden),
            "mlp.up_proj.weight": matrix(inner, hidden),
            "mlp.down_proj.weight": matrix(hidden, inner),
        }
        if config["model_type"] == "qwen3":
            layer |= {"self_attn.q_norm.weight": norm(dims), "self_attn.k_norm.weight": norm(dims)}
        else:
            sizes = {"q": queries, "k": keys, "v": keys}
            layer |= {f"self_attn.{name}_proj.bias": draw(size, spread=0.5) for name, size in sizes.items()}
        weights |= {f"model.layers.{number}.{name}": w for name, w in layer.items()}
    weights["model.norm.weight"] = norm(hidden)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return ReferenceModel(config, weights)


def embedded_model(dtype: mx.Dtype = mx.float32) -> ReferenceModel:
    """The trained model that comes with the course, in the same form."""
    checkpoint = embedded_checkpoint(dtype)
    return ReferenceModel(checkpoint.config, checkpoint.weights)


def random_tokens(seed: int, *shape: int, vocab_size: int = QWEN3["vocab_size"]) -> mx.array:
    """Seeded token ids."""
    return mx.array(np.random.default_rng(seed).integers(0, vocab_size, shape).astype(np.int32))


def block64(
    x: Array64,
    model: ReferenceModel,
    mask: Array64 | str | None = None,
    number: int = 0,
    *,
    r: Round = exact,
) -> Array64:
    """Compute one layer: h = x + attention(norm(x)), then h + MLP(norm(h))."""
    c, w = model.config, model.layer64(number)
    eps = c["rms_norm_eps"]
    attended = qwen_attention64(
        rms_norm64(x, w["input_layernorm.weight"], eps, r=r),
        c["num_attention_heads"],
        c["num_key_value_heads"],
        w["self_attn.q_proj.weight"],
        w["self_attn.k_proj.weight"],
        w["self_attn.v_proj.weight"],
        w["self_attn.o_proj.weight"],
        w.get("self_attn.q_norm.weight"),
        w.get("self_attn.k_norm.weight"),
        w.get("self_attn.q_proj.bias"),
        w.get("self_attn.k_proj.bias"),
        w.get("self_attn.v_proj.bias"),
        theta=c["rope_theta"],
        eps=eps,
        mask=mask,
        r=r,
    )
    h = r(x + attended)
    normed = rms_norm64(h, w["post_attention_layernorm.weight"], eps, r=r)
    return r(h + mlp64(normed, w["mlp.gate_proj.weight"], w["mlp.up_proj.weight"], w["mlp.down_proj.weight"], r=r))


def model64(tokens: Array64, model: ReferenceModel, *, r: Round = exact) -> Array64:
    """The logits after every position."""
    table = model.weights64["model.embed_tokens.weight"]
    x = table[tokens.astype(int)]
    for number in range(model.config["num_hidden_layers"]):
        x = block64(x, model, "causal", number, r=r)
    x = rms_norm64(x, model.weights64["model.norm.weight"], model.config["rms_norm_eps"], r=r)
    head = table if model.config["tie_word_embeddings"] else model.weights64["lm_head.weight"]
    return linear64(x, head, r=r)
