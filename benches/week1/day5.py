"""Weights, FLOPs and time of a whole model, part by part."""

from collections.abc import Callable
from functools import partial

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.embedding import Embedding
from tiny_llm.layer_norm import RMSNorm
from tiny_llm.qwen3 import Qwen3MLP, Qwen3Model, Qwen3MultiHeadAttention
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, on_cpu, seconds

# What the book draws of the table.
CHART = ("bars", "", ("MACs %", "time %", "Qwen3-0.6B: MACs %"))

# From the config.json of Qwen3-0.6B. Its weights are only counted, not loaded.
QWEN3 = ModelConfig("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 1e-6, 1e6, 40960, True)

Layer = Callable[[mx.array], mx.array]


def measure(quick: bool = False) -> Table:
    """Measure the embedded model, part by part and as a whole, and count Qwen3-0.6B beside it."""
    length = 8 if quick else 256 if on_cpu() else 1024  # with less work, a GPU would measure launch overhead
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    x, tokens = mx.random.normal((1, length, config.hidden_size)), mx.arange(length)[None]
    parts = _parts(config, checkpoint.weights)
    model = Qwen3Model(config, checkpoint.weights)
    *times, whole = seconds(*(partial(_each, layers, x) for layers in parts.values()), partial(model, tokens))
    small, large = _counts(config, length), _counts(QWEN3, length)
    rows = []
    for name, taken in zip(parts, times, strict=True):
        (weights, macs), (large_weights, large_macs) = _percent(small, name), _percent(large, name)
        rows.append((name, weights, macs, 100 * taken / whole, large_weights, large_macs))
    all_weights, all_macs = (sum(count[i] for count in small.values()) for i in (0, 1))
    return Table(
        ("part", "weights %", "MACs %", "time %", "Qwen3-0.6B: weights %", "Qwen3-0.6B: MACs %"),
        tuple(rows),
        f"The whole model ({all_weights / 1e6:.2f} million weights) takes {whole * 1e3:.0f} ms for {length} tokens, "
        f"or {all_macs * length / whole / 1e9:.1f} billion MACs (multiply-accumulates) per second. The parts, timed "
        f"separately, add up to {100 * sum(times) / whole:.0f} % of that time.",
    )


def _parts(config: ModelConfig, weights: dict[str, mx.array]) -> dict[str, list[Layer]]:
    """Split the model into parts: all modules of a kind, from all layers."""
    numbers = range(config.num_hidden_layers)

    def of(layer: int, *names: str) -> list[mx.array]:
        return [weights[f"model.layers.{layer}.{name}.weight"] for name in names]

    sizes = (config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim)
    attention: list[Layer] = []
    mlp: list[Layer] = []
    norms: list[Layer] = [RMSNorm(config.hidden_size, weights["model.norm.weight"])]
    for i in numbers:
        projections = of(i, *(f"self_attn.{name}_proj" for name in "qkvo"))
        q_norm, k_norm = of(i, "self_attn.q_norm", "self_attn.k_norm")
        layer = Qwen3MultiHeadAttention(*sizes, *projections, q_norm=q_norm, k_norm=k_norm, theta=config.rope_theta)
        attention.append(partial(layer, mask="causal"))
        gate_up_down = of(i, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
        mlp.append(Qwen3MLP(config.hidden_size, config.intermediate_size, *gate_up_down))
        norms += [RMSNorm(config.hidden_size, w) for w in of(i, "input_layernorm", "post_attention_layernorm")]
    head = Embedding(config.vocab_size, config.hidden_size, weights["model.embed_tokens.weight"])
    return {"attention": attention, "MLP": mlp, "norms": norms, "head": [head.as_linear]}


def _counts(config: ModelConfig, length: int) -> dict[str, tuple[int, int]]:
    """Return weights, and MACs per token at `length` tokens, by part. The tied embedding counts once, as the head."""
    layers, size, head_dim = config.num_hidden_layers, config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    projections = 2 * size * (heads + kv_heads) * head_dim
    mlp, norms, head = 3 * size * config.intermediate_size, (2 * layers + 1) * size, config.vocab_size * size
    return {
        "attention": (layers * (projections + 2 * head_dim), layers * (projections + 2 * heads * head_dim * length)),
        "MLP": (layers * mlp, layers * mlp),
        "norms": (norms, 3 * norms),  # square, divide by the root, multiply by the weight
        "head": (head, head),
    }


def _percent(counts: dict[str, tuple[int, int]], name: str) -> tuple[float, float]:
    """Return the part's share of both counts, in percent."""
    weights, macs = (100 * counts[name][i] / sum(count[i] for count in counts.values()) for i in (0, 1))
    return weights, macs


def _each(layers: list[Layer], x: mx.array) -> list[mx.array]:
    return [layer(x) for layer in layers]
