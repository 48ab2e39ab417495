"""What a config.json asks for that no stage has: sliding windows, scaled RoPE, experts. Week 4's engine takes these.

A key that says the same in each way in which files say it is read here once, for the harness; the learner's package,
which never imports it, reads the files by itself.
"""

from pathlib import Path
from typing import Any

from ..course.findings import shortened
from ..course.registry import UsageError

Config = dict[str, Any]

SCALED = {"linear": ("factor",), "dynamic": ("factor",), "yarn": ("factor", "original_max_position_embeddings")}
SWITCHED = ("qwen2", "qwen3", "qwen3_moe")  # without use_sliding_window they have no window
LAYERS = ("full_attention", "sliding_attention")
EXPERTS = ("num_experts", "num_experts_per_tok", "moe_intermediate_size")
FIRST_WINDOWED = 28  # max_window_layers, where a file does not say it
LARGEST_FACTOR = 1 << 16


def beyond(config: Config) -> str:
    """What a config that `check_config` lets through asks for beyond the stages, in words; "" if nothing."""
    asked = {
        "a mixture of experts": config["model_type"] == "qwen3_moe",
        "the architecture of Mistral": config["model_type"] == "mistral",
        "a sliding window": is_windowed(config),
        f"RoPE scaling of type {rope_type(config)!r}": rope_type(config) != "default",
    }
    return next((words for words, is_asked in asked.items() if is_asked), "")


def rope_table(config: Config) -> Any:
    """The table that older files call rope_scaling and newer ones rope_parameters; empty if there is neither."""
    return config.get("rope_scaling") or config.get("rope_parameters") or {}


def rope_type(config: Config) -> Any:
    """Which way of scaling RoPE: "default" is none."""
    table = rope_table(config)
    return table.get("rope_type", table.get("type", "default")) if isinstance(table, dict) else table


def is_windowed(config: Config) -> bool:
    """Whether a layer sees a window only."""
    kinds, layers = config.get("layer_types"), config["num_hidden_layers"]
    if isinstance(kinds, list):
        return "sliding_attention" in kinds
    is_on = config.get("use_sliding_window", config["model_type"] not in SWITCHED)
    if not is_on or config.get("sliding_window") is None:
        return False
    first = config.get("max_window_layers", FIRST_WINDOWED) if config["model_type"] in ("qwen2", "qwen3") else 0
    return bool(first < layers)


def is_sparse(config: Config, number: int) -> bool:
    """Whether the layer of this number has experts in the place of one MLP."""
    if config["model_type"] != "qwen3_moe" or number in (config.get("mlp_only_layers") or ()):
        return False
    return bool((number + 1) % (config.get("decoder_sparse_step") or 1) == 0)


def check_beyond(file: Path, config: Config) -> None:
    """Refuse what would be computed wrongly without a word, or what contradicts itself.

    Raises:
        UsageError: which of these it is.
    """
    _check_windows(file, config)
    _check_rope(file, config)
    if config["model_type"] == "qwen3_moe":
        _check_experts(file, config)


def _check_rope(file: Path, config: Config) -> None:
    name = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    table, kind = rope_table(config), rope_type(config)
    if kind != "default" and (not isinstance(kind, str) or kind not in SCALED):
        known = ", ".join(map(repr, ("default", *SCALED)))
        raise UsageError(f"{file} asks for {name} of type {shortened(repr(kind))}, known are {known}")
    for key in SCALED.get(kind, ()):
        value, least = table.get(key), 1
        if type(value) not in (int, float) or not least <= value <= (LARGEST_FACTOR if key == "factor" else 1 << 62):
            raise UsageError(f"{file} has {name} of type {kind!r} with {key} = {value!r}, expected a number from 1 on")
    part = config.get("partial_rotary_factor", table.get("partial_rotary_factor") if isinstance(table, dict) else None)
    if part not in (None, 1):
        raise UsageError(f"{file} says partial_rotary_factor {part!r}, but this engine's RoPE turns whole heads only")
    if kind == "dynamic" and is_windowed(config):
        raise UsageError(f"{file} asks for RoPE scaling of type 'dynamic' and a sliding window; this engine has not both")


def _check_windows(file: Path, config: Config) -> None:
    kinds, layers = config.get("layer_types"), config["num_hidden_layers"]
    first = config.get("max_window_layers", FIRST_WINDOWED)
    if type(first) is not int:
        raise UsageError(f"{file} has max_window_layers = {shortened(repr(first))}, expected a whole number")
    if isinstance(kinds, list):
        if odd := next((kind for kind in kinds if kind not in LAYERS), None):
            raise UsageError(f"{file} has a layer of type {odd!r}, known are {', '.join(map(repr, LAYERS))}")
        if len(kinds) != layers:
            raise UsageError(f"{file} has {len(kinds)} layer_types, expected one for each of {layers} layers")
        if is_windowed(config) and not config.get("use_sliding_window", config["model_type"] not in SWITCHED):
            raise UsageError(f"{file} has layers of type 'sliding_attention', but use_sliding_window is not true")
    if is_windowed(config):
        window = config.get("sliding_window")
        if type(window) is not int or window < 1:
            raise UsageError(f"{file} has sliding_window = {window!r}, expected a whole number above 0")


def _check_experts(file: Path, config: Config) -> None:
    if missing := [name for name in EXPERTS if config.get(name) is None]:
        raise UsageError(f"{file} lacks {', '.join(missing)}")
    for name in (*EXPERTS, *(name for name in ("decoder_sparse_step",) if config.get(name) is not None)):
        if type(config[name]) is not int or not 0 < config[name] < 1 << 62:
            raise UsageError(f"{file} has {name} = {shortened(repr(config[name]))}, expected a whole number above 0")
    if config["num_experts_per_tok"] > config["num_experts"]:
        chosen, there = config["num_experts_per_tok"], config["num_experts"]
        raise UsageError(f"{file} has num_experts_per_tok = {chosen}, expected at most its {there} experts")
    dense = config.get("mlp_only_layers") or []
    if not isinstance(dense, list) or not all(type(number) is int for number in dense):
        raise UsageError(f"{file} has mlp_only_layers = {shortened(repr(dense))}, expected a list of layers' numbers")
