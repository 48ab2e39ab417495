"""Check a config.json against the engine and its weights, before anything is built, and derive the weights' shapes."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..course.findings import shortened
from ..course.registry import UsageError
from .features import check_features, is_sparse
from .files import LARGEST_NUMBER, TINY, check_number

# By model_type. The learner's package supports the same.
ARCHITECTURES = {"qwen3": "Qwen3", "qwen2": "Qwen2 and Qwen2.5", "qwen3_moe": "Qwen3-MoE"}
ARCHITECTURES |= {"llama": "Llama 3", "mistral": "Mistral"}
BIASES = ("qwen2",)  # of queries, keys and values
NORMS = ("qwen3", "qwen3_moe")  # of each head's queries and keys
WHOLE: tuple[str, ...] = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "vocab_size")
WHOLE += ("max_position_embeddings",)
FRACTIONS = ("rms_norm_eps", "rope_theta")
SWITCHES = ("tie_word_embeddings", "use_sliding_window", "attention_bias", "mlp_bias")
OPTIONAL = ("num_key_value_heads", "head_dim")
LONGEST = 1 << 21  # context, which RoPE's tables grow with, and which no weight confirms; Qwen's longest is 2**20
STACKED = "switch_mlp"  # mlx-lm's name of a layer's stacked experts


class Dimension(NamedTuple):
    """The length of a weight's axis, and what it is in config.json's terms."""

    name: str
    size: int


Axes = tuple[Dimension, ...]


def check_config(file: Path, config: dict[str, Any]) -> None:
    """Raise UsageError for a config that the engine does not support, or that is incomplete or inconsistent."""
    _check_supported(file, config)
    table = config.get("rope_parameters")
    known = config if config.get("rope_theta") is not None or not isinstance(table, dict) else config | table
    if missing := [name for name in (*WHOLE, *FRACTIONS) if known.get(name) is None]:
        raise UsageError(f"{file} lacks {', '.join(missing)}")
    for name in (*WHOLE, *FRACTIONS, *(name for name in OPTIONAL if config.get(name) is not None)):
        most = LONGEST if name == "max_position_embeddings" else LARGEST_NUMBER
        check_number(file, name, known[name], TINY if name in FRACTIONS else 1, most)
    heads, kv_heads, dims = _heads(config)
    if heads % kv_heads:
        raise UsageError(f"{file} has {heads} heads and {kv_heads} key-value heads, expected a divisor of {heads}")
    if config.get("head_dim") is None and config["hidden_size"] % heads:
        raise UsageError(f"{file} has hidden_size = {config['hidden_size']}, expected a multiple of its {heads} heads")
    if dims % 2 or not dims:
        raise UsageError(f"{file} has head_dim = {dims}, expected an even number: RoPE rotates pairs")
    check_features(file, config)


def _heads(config: dict[str, Any]) -> tuple[int, int, int]:
    """Return H, H_kv and D."""
    heads: int = config["num_attention_heads"]
    return heads, config.get("num_key_value_heads") or heads, config.get("head_dim") or config["hidden_size"] // heads


def check_layers(file: Path, config: dict[str, Any], weights: Collection[str]) -> None:
    """Raise UsageError if the config has more or fewer layers than the files: it could name billions."""
    stored = {int(found[1]) for name in weights if (found := re.match(r"model\.layers\.(\d+)\.", name))}
    wanted = config["num_hidden_layers"]
    if len(stored) != wanted:
        raise UsageError(f"{file} has num_hidden_layers = {wanted}, but the files have the weights of {len(stored)}")


def axes_of_weights(config: dict[str, Any], stored: Collection[str]) -> Iterator[tuple[str, Axes]]:
    """Yield the name and axes of every weight; `stored` shows whether experts are stacked (MLX) or not (the Hub)."""
    heads, kv_heads, dims = _heads(config)
    names = ("vocab_size", "hidden_size", "intermediate_size")
    vocabulary, hidden, width = (Dimension(name, config[name]) for name in names)
    head = Dimension("head_dim", dims)
    queries = Dimension("num_attention_heads * head_dim", heads * dims)
    keys = Dimension("num_key_value_heads * head_dim", kv_heads * dims)
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    yield "model.norm.weight", (hidden,)
    if not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", (vocabulary, hidden)
    layer: dict[str, Axes] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
    }
    if config["model_type"] in NORMS:
        layer |= {"self_attn.q_norm.weight": (head,), "self_attn.k_norm.weight": (head,)}
    if config["model_type"] in BIASES:
        layer |= {f"self_attn.{part}_proj.bias": (queries if part == "q" else keys,) for part in "qkv"}
    for number in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{number}."
        mlp = _experts(config, f"{prefix}mlp.", stored) if is_sparse(config, number) else _mlp(width, hidden)
        for name, axes in (layer | mlp).items():
            yield f"{prefix}{name}", axes


def _mlp(width: Dimension, hidden: Dimension, name: str = "mlp") -> dict[str, Axes]:
    shapes = {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    return {f"{name}.{part}_proj.weight": axes for part, axes in shapes.items()}


def _experts(config: dict[str, Any], prefix: str, stored: Collection[str]) -> dict[str, Axes]:
    names = ("num_experts", "hidden_size", "moe_intermediate_size")
    experts, hidden, width = (Dimension(name, config[name]) for name in names)
    router: dict[str, Axes] = {"mlp.gate.weight": (experts, hidden)}
    if f"{prefix}{STACKED}.gate_proj.weight" in stored:
        return router | {name: (experts, *axes) for name, axes in _mlp(width, hidden, f"mlp.{STACKED}").items()}
    # At most one more than are stored: a config may name billions.
    there = len({name.removeprefix(prefix).split(".")[1] for name in stored if name.startswith(f"{prefix}experts.")})
    for number in range(min(experts.size, there + 1)):
        router |= _mlp(width, hidden, f"mlp.experts.{number}")
    return router


def _check_supported(file: Path, config: dict[str, Any]) -> None:
    """Raise UsageError for what the engine would silently compute wrongly."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = ", ".join(f"{name!r} ({what})" for name, what in ARCHITECTURES.items())
        raise UsageError(f"{file} has model_type {kind!r}, expected {known}")
    for name in SWITCHES:
        if type(value := config.get(name, False)) is not bool:
            raise UsageError(f"{file} has {name} = {shortened(repr(value))}, expected true or false")
    if (activation := config.get("hidden_act") or "silu") != "silu":
        raise UsageError(f"{file} has hidden_act {activation!r}, but this engine supports 'silu' only")
    for name in SWITCHES[2:] if kind not in BIASES else ():
        if config.get(name):
            raise UsageError(f"{file} has {name} true, but this engine's {ARCHITECTURES[kind]} has no biases")
    quantization = config.get("quantization_config")
    if not config.get("quantization") and quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise UsageError(f"{file} has weights quantized by {method!r}, expected MLX's format or none")
