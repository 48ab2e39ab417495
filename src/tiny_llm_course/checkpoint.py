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

# As config.json names them. The learner's package knows the same.
ARCHITECTURES = {"qwen3": "Qwen3", "qwen2": "Qwen2 and Qwen2.5"}
NORMAL_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# What a generation_config.json calls the arguments of `make_sampler`.
SAMPLING = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
}


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The contents of a folder."""

    folder: Path
    config: dict[str, Any]  # config.json
    weights: dict[str, mx.array]  # by the names in the files, dequantized
    tokenizer: Path  # tokenizer.json
    hidden_ids: frozenset[int]  # marks for the model, and rows of its embedding that no token has: they show as nothing
    chat_template: str | None
    special_tokens: dict[str, str]  # by the names that chat templates use: eos_token, ...
    eos_ids: tuple[int, ...]
    sampling: dict[str, float]  # what generation_config.json recommends, as `make_sampler` calls it


def load_checkpoint(folder: Path, dtype: mx.Dtype | None = None) -> Checkpoint:
    """Read a folder; the weights are brought to `dtype`, or stay as they are stored.

    Weights are not yet in memory when this returns: MLX reads each when it is first computed with.

    Raises:
        UsageError: a file is missing, damaged, or does not fit the others.
    """
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a checkpoint's folder, with config.json and *.safetensors")
    config = read_json(folder / "config.json")
    shapes = expected_shapes(folder / "config.json", config)
    tokenizer = folder / "tokenizer.json"
    ids, hidden = _tokens(tokenizer, config["vocab_size"])
    settings = read_json(folder / "tokenizer_config.json", required=False)
    special_tokens = _special_tokens(settings)
    generation_file = folder / "generation_config.json"
    generation = read_json(generation_file, required=False)
    return Checkpoint(
        folder,
        config,
        read_weights(folder, shapes, config.get("quantization"), dtype),
        tokenizer,
        hidden,
        _chat_template(folder, settings),
        special_tokens,
        _eos_ids(folder, config, generation) or tuple(ids[t] for t in [special_tokens.get("eos_token")] if t in ids),
        _sampling(generation_file, generation),
    )


def read_json(file: Path, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file; nothing if the file may be missing, and is."""
    if not file.exists():
        if not required:
            return {}
        raise UsageError(f"{file} is missing")
    try:
        data = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{file} holds a JSON {type(data).__name__}, expected an object")
    return data


def read_text(file: Path) -> str:
    """The contents of a text file."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: {error}") from error


def expected_shapes(file: Path, config: dict[str, Any]) -> dict[str, Shape]:
    """The name and shape of every weight of a model with this config.

    Raises:
        UsageError: the config asks for what the engine does not have, or lacks a measure.
    """
    _check_supported(file, config)
    names = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "vocab_size")
    table = config.get("rope_parameters")
    known = config if config.get("rope_theta") is not None or not isinstance(table, dict) else config | table
    numbers = ("max_position_embeddings", "rms_norm_eps", "rope_theta")
    if missing := [name for name in (*names, *numbers) if known.get(name) is None]:
        raise UsageError(f"{file} lacks {', '.join(missing)}")
    defaults = {"num_key_value_heads": known["num_attention_heads"], "head_dim": None}
    for name in (*names, *numbers, *defaults):
        value = known.get(name)
        whole = name not in ("rms_norm_eps", "rope_theta")
        right = isinstance(value, int if whole else int | float) and not isinstance(value, bool) and value > 0
        if not right and not (name in defaults and value is None):
            raise UsageError(f"{file} has {name} = {value!r}, expected a {'whole ' * whole}number above 0")
    hidden, layers, width, heads, vocabulary = (config[name] for name in names)
    kv_heads = config.get("num_key_value_heads") or heads
    dims = config.get("head_dim") or hidden // heads
    if heads % kv_heads:
        raise UsageError(f"{file} has {heads} heads and {kv_heads} key-value heads, expected a divisor of {heads}")
    if dims % 2 or not dims:
        raise UsageError(f"{file} has heads of {dims} numbers, expected an even number: RoPE turns pairs")
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
    if config["model_type"] == "qwen3":
        layer |= {"self_attn.q_norm.weight": (dims,), "self_attn.k_norm.weight": (dims,)}
    else:
        layer |= {
            "self_attn.q_proj.bias": (heads * dims,),
            "self_attn.k_proj.bias": (kv_heads * dims,),
            "self_attn.v_proj.bias": (kv_heads * dims,),
        }
    return shapes | {f"model.layers.{i}.{name}": shape for i in range(layers) for name, shape in layer.items()}


def _check_supported(file: Path, config: dict[str, Any]) -> None:
    """Refuse what would be computed wrongly without a word."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = ", ".join(f"{name!r} ({what})" for name, what in ARCHITECTURES.items())
        raise UsageError(f"{file} says model_type {kind!r}, known are {known}")
    for name in ("rope_scaling", "rope_parameters"):
        table = config.get(name) or {}
        rope = table.get("rope_type", table.get("type", "default")) if isinstance(table, dict) else table
        if rope != "default":
            raise UsageError(f"{file} asks for {name} of type {rope!r}, but this engine has RoPE without scaling only")
    if config.get("use_sliding_window") or "sliding_attention" in (config.get("layer_types") or ()):
        raise UsageError(f"{file} asks for a sliding window, but this engine has full attention only")
    if (activation := config.get("hidden_act") or "silu") != "silu":
        raise UsageError(f"{file} says hidden_act {activation!r}, but this engine has 'silu' only")
    if kind == "qwen3" and config.get("attention_bias"):
        raise UsageError(f"{file} says attention_bias true, but this engine's Qwen3 has no biases")
    quantization = config.get("quantization_config")
    if not config.get("quantization") and quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise UsageError(f"{file} says the weights are quantized by {method!r}, expected MLX's own form or none")


def _tokens(file: Path, vocab_size: int) -> tuple[dict[str | None, int], frozenset[int]]:
    """The tokens of a byte-level BPE tokenizer, and the numbers below vocab_size that show as nothing.

    Raises:
        UsageError: it is not one, or has tokens that the model does not know.
    """
    data = read_json(file)
    try:
        added = data.get("added_tokens") or []
        ids = {**data["model"]["vocab"], **{token["content"]: token["id"] for token in added}}
        largest = max(ids.values())
        shown = set(ids.values()) - {token["id"] for token in added if token.get("special")}
        hidden = frozenset(range(vocab_size)) - shown
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} holds no vocabulary, expected model.vocab with a number for each token") from error
    if largest >= vocab_size:
        raise UsageError(f"{file} has token {largest}, but the model's vocab_size is {vocab_size}")
    try:
        steps = data["pre_tokenizer"].get("pretokenizers", [data["pre_tokenizer"]])
        bytelevel = any(step["type"] == "ByteLevel" for step in steps) and not data["model"].get("byte_fallback")
        right = bytelevel and data["model"]["type"] == "BPE" and isinstance(data["model"]["merges"], list)
    except (AttributeError, KeyError, TypeError):
        right = False
    if not right:
        raise UsageError(f"{file} describes another tokenizer, expected byte-level BPE")
    form = (data.get("normalizer") or {"type": NORMAL_FORMS[0]}).get("type")
    if form not in NORMAL_FORMS:
        raise UsageError(f"{file} normalizes by {form!r}, expected {', '.join(NORMAL_FORMS)} or nothing")
    return ids, hidden


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """From a file of its own, or from tokenizer_config.json: one template, or a list of named ones."""
    own = folder / "chat_template.jinja"
    if own.exists():
        return read_text(own)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """What tokenizer_config.json calls `eos_token` and so on; each is a text, or a table with the text in it."""
    named = {name: value for name, value in settings.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _eos_ids(folder: Path, config: dict[str, Any], generation: dict[str, Any]) -> tuple[int, ...]:
    """Every token that ends a text; generation_config.json knows better than config.json."""
    for name, table in (("generation_config.json", generation), ("config.json", config)):
        if (ids := table.get("eos_token_id")) is not None:
            ids = ids if isinstance(ids, list) else [ids]
            if not all(type(number) is int for number in ids):
                raise UsageError(f"{folder / name} has eos_token_id = {ids!r}, expected a token's number, or a list")
            return tuple(ids)
    return ()


def _sampling(file: Path, generation: dict[str, Any]) -> dict[str, float]:
    for name in SAMPLING:
        if generation.get(name) is not None and type(generation[name]) not in (int, float):
            raise UsageError(f"{file} has {name} = {generation[name]!r}, expected a number")
    if generation.get("do_sample") is False:
        return {"temp": 0.0}
    return {ours: generation[name] for name, ours in SAMPLING.items() if generation.get(name) is not None}
