"""Oracles of latent attention beside its formula (MLX's operators, transformers), and helpers of day 4's tests."""

import io
import re
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import strategies as st
from tests.week4.latent_formulas import COMPRESSED, PLAIN, LatentLayer, random_layer

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.sizes import SweepCase

by_query = pytest.mark.parametrize("base", [PLAIN, COMPRESSED], ids=["q_proj", "q_a_proj"])
by_parts = pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, -3, 3)], ids=str)
cuts = st.lists(st.integers(1, 3), min_size=1, max_size=4)


def stream(seed: int, layer: LatentLayer, batch: int = 2, length: int = 8) -> mx.array:
    """Return a layer's inputs, N x L x E."""
    return normals(seed, layer.dtype)(batch, length, layer.config["hidden_size"])


def without(layer: LatentLayer, part: str) -> LatentLayer:
    """Return a layer in which one part of every score, or every value, is 0."""
    c, w = layer.config, layer.weights
    nope, rope, latent = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["kv_lora_rank"]
    heads, values = c["num_attention_heads"], c["v_head_dim"]
    down, up = w["self_attn.kv_a_proj_with_mqa.weight"], w["self_attn.kv_b_proj.weight"]
    if part == "rope":
        return layer.with_weights(kv_a_proj_with_mqa=mx.where(mx.arange(latent + rope)[:, None] < latent, down, 0))
    is_key = (mx.arange(heads * (nope + values)) % (nope + values) < nope)[:, None]
    return layer.with_weights(kv_b_proj=mx.where(is_key if part == "nope" else ~is_key, 0, up))


def products_with(entries: mx.array, result: mx.array) -> int:
    """Return how many matrix products of an unevaluated result have entries, or a part of them, as a factor."""
    mx.export_to_dot(graph := io.StringIO(), entries=entries, result=result)
    factors = re.findall(r'(\d+) \[label ="(?:Matmul|AddMM|GatherMM)"', graph.getvalue())
    found: set[str] = set()
    reached, edges = {'"entries"'}, re.findall(r"(\S+) -> (\S+)", graph.getvalue())
    for start, end in edges:  # in the order of evaluation
        if start in reached:
            (found if end in factors else reached).add(end)
    return len(found)


def of_operators(x: mx.array, layer: LatentLayer) -> mx.array:
    """The same with MLX's own operators; values are zero-padded to the keys' width, and cut again."""
    c, w = layer.config, {name.split(".")[1]: w for name, w in layer.weights.items()}
    heads, nope, dims = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    theta, values = c["rope_theta"], c["v_head_dim"]

    def turned(y: mx.array) -> mx.array:
        return mx.fast.rope(y, dims, traditional=True, base=theta, scale=1.0, offset=0)

    def split(y: mx.array) -> Any:
        return mx.split(mx.unflatten(y, -1, (heads, -1)).swapaxes(1, 2), [nope], axis=-1)

    given = x
    if c["q_lora_rank"] is not None:
        given = mx.fast.rms_norm(x @ w["q_a_proj"].T, w["q_a_layernorm"], 1e-6)
    query, query_rope = split(given @ (w["q_proj"] if c["q_lora_rank"] is None else w["q_b_proj"]).T)
    latent, key_rope = mx.split(x @ w["kv_a_proj_with_mqa"].T, [c["kv_lora_rank"]], axis=-1)
    key, value = split(mx.fast.rms_norm(latent, w["kv_a_layernorm"], 1e-6) @ w["kv_b_proj"].T)
    key = mx.concatenate([key, mx.repeat(turned(key_rope[:, None]), heads, axis=1)], axis=-1)
    query = mx.concatenate([query, turned(query_rope)], axis=-1)
    value = mx.concatenate([value, mx.zeros((*value.shape[:-1], nope + dims - values))], axis=-1)
    y = mx.fast.scaled_dot_product_attention(query, key, value, scale=(nope + dims) ** -0.5, mask="causal")
    return y[..., :values].swapaxes(1, 2).flatten(2) @ w["o_proj"].T


def deepseek(torch: Any, x: Any, config: dict[str, Any], weights: dict[str, Any]) -> Any:
    """The attention of DeepSeek-V3 in `transformers`, with these weights."""
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

    rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    given = {name: value for name, value in config.items() if name != "rope_theta"}
    given |= {"num_key_value_heads": config["num_attention_heads"], "num_hidden_layers": 1, "rope_parameters": rope}
    given["attn_implementation"] = "eager"
    theirs = DeepseekV3Config(**given)
    layer, length = DeepseekV3Attention(theirs, 0).eval(), x.shape[1]
    layer.load_state_dict({name.removeprefix("self_attn."): w for name, w in weights.items()}, strict=True)
    mask = torch.triu(torch.full((1, 1, length, length), float("-inf")), diagonal=1)
    with torch.no_grad():
        angles = DeepseekV3RotaryEmbedding(theirs)(x, torch.arange(length)[None])
        return layer(x, angles, mask)[0]


def layer_of(n: SweepCase) -> LatentLayer:
    """Return a layer of a sweep's sizes."""
    measures = {
        "num_attention_heads": n.H,
        "kv_lora_rank": n.C,
        "qk_nope_head_dim": n.D,
        "qk_rope_head_dim": 2 * n.P,
        "v_head_dim": n.V,
        "hidden_size": n.E,
        "q_lora_rank": n.turn(None, n.C + 1, n.D),
        "rope_theta": n.turn(10000.0, 500.0, 1000000.0),
        "max_position_embeddings": n.L + 5,
    }
    return random_layer(PLAIN, n.seed, n.dtype, **measures)


def pair(
    seed: int, batch: int, length: int, latent: int = 5, rope: int = 4, dtype: mx.Dtype = mx.float32
) -> tuple[mx.array, mx.array]:
    """Return latents, N x L x C, and RoPE keys, N x L x D_rope."""
    draw = normals(seed, dtype)
    return draw(batch, length, latent), draw(batch, length, rope)


def copying_calls(call: Callable[[], mx.array], calls: int, added: int) -> int:
    """Return how many of the last two thirds of some calls, which add so many bytes each, allocate as much as all."""
    taken = [peak_bytes(call) for _ in range(calls)]
    return sum(number >= calls // 3 and each > number * added for number, each in enumerate(taken))
