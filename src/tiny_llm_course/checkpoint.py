"""Reading a checkpoint folder in Hugging Face or MLX form, without mlx-lm or transformers.

Whatever is wrong with a folder is one line that names the file and what was expected.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import mlx.core as mx

from .registry import UsageError
from .weights import Shape, read_weights

# As config.json names them. The learner's package knows the same, and checks the rest of the config.
ARCHITECTURES = {"qwen3": "Qwen3", "qwen2": "Qwen2 and Qwen2.5"}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The contents of a folder."""

    folder: Path
    config: dict[str, Any]  # config.json
    weights: dict[str, mx.array]  # by the names in the files, dequantized
    tokenizer: Path  # tokenizer.json
    chat_template: str | None
    eos_ids: tuple[int, ...]
    generation: dict[str, Any]  # generation_config.json


def load_checkpoint(folder: Path, dtype: mx.Dtype | None = None) -> Checkpoint:
    """Read a folder; the weights are brought to `dtype`, or stay as they are stored.

    Raises:
        UsageError: a file is missing, damaged, or does not fit the others.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder, but a checkpoint is one (with config.json and *.safetensors)")
    config = read_json(folder / "config.json")
    shapes = expected_shapes(folder / "config.json", config)
    tokenizer = folder / "tokenizer.json"
    _check_vocabulary(tokenizer, config["vocab_size"])
    settings = read_json(folder / "tokenizer_config.json", required=False)
    generation = read_json(folder / "generation_config.json", required=False)
    return Checkpoint(
        folder,
        config,
        read_weights(folder, shapes, config.get("quantization"), dtype),
        tokenizer,
        _chat_template(folder, settings),
        _eos_ids(config, generation),
        generation,
    )


def read_json(file: Path, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file; nothing if the file may be missing, and is."""
    if not file.exists():
        if not required:
            return {}
        raise UsageError(f"{file} is missing")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{file} holds a {type(data).__name__}, expected an object")
    return data


def expected_shapes(file: Path, config: dict[str, Any]) -> dict[str, Shape]:
    """The name and shape of every weight of a model with this config.

    Raises:
        UsageError: the architecture is unknown, or the config lacks a measure.
    """
    kind = config.get("model_type")
    if kind not in ARCHITECTURES:
        known = ", ".join(f"{name!r} ({what})" for name, what in ARCHITECTURES.items())
        raise UsageError(f"{file} says model_type {kind!r}, known are {known}")
    names = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "vocab_size")
    missing = [name for name in names if not isinstance(config.get(name), int)]
    if missing:
        raise UsageError(f"{file} lacks {', '.join(missing)} (a whole number)")
    hidden, layers, width, heads, vocabulary = (config[name] for name in names)
    kv_heads = config.get("num_key_value_heads") or heads
    dims = config.get("head_dim") or hidden // heads
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    if not config.get("tie_word_embeddings", False):
        shapes["lm_head.weight"] = (vocabulary, hidden)
    layer: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (heads * dims, hidden),
        "self_attn.k_proj.weight": (kv_heads * dims, hidden),
        "self_attn.v_proj.weight": (kv_heads * dims, hidden),
        "self_attn.o_proj.weight": (hidden, heads * dims),
        "mlp.gate_proj.weight": (width, hidden),
        "mlp.up_proj.weight": (width, hidden),
        "mlp.down_proj.weight": (hidden, width),
    }
    if kind == "qwen3":
        layer |= {"self_attn.q_norm.weight": (dims,), "self_attn.k_norm.weight": (dims,)}
    else:
        layer |= {
            "self_attn.q_proj.bias": (heads * dims,),
            "self_attn.k_proj.bias": (kv_heads * dims,),
            "self_attn.v_proj.bias": (kv_heads * dims,),
        }
    return shapes | {f"model.layers.{i}.{name}": shape for i in range(layers) for name, shape in layer.items()}


def _check_vocabulary(file: Path, vocab_size: int) -> None:
    data = read_json(file)
    try:
        ids = [*data["model"]["vocab"].values(), *(token["id"] for token in data.get("added_tokens", []))]
        largest = max(ids)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} holds no vocabulary (model.vocab)") from error
    if largest >= vocab_size:
        raise UsageError(f"{file} has token {largest}, but the model's vocab_size is {vocab_size}")


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """From a file of its own, or from tokenizer_config.json: one template, or a list of named ones."""
    own = folder / "chat_template.jinja"
    if own.exists():
        return own.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _eos_ids(config: dict[str, Any], generation: dict[str, Any]) -> tuple[int, ...]:
    """Every token that ends a text; generation_config.json knows better than config.json."""
    ids = generation.get("eos_token_id", config.get("eos_token_id"))
    return tuple(ids) if isinstance(ids, list) else () if ids is None else (ids,)
