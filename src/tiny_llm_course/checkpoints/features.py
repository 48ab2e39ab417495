"""What a config.json needs that only week 4's engine supports: sliding windows, scaled RoPE, experts."""

from pathlib import Path
from typing import Any

from ..course.findings import shortened
from ..course.registry import UsageError
from .files import check_number

Config = dict[str, Any]

SCALED = ("linear", "dynamic", "yarn", "llama3")  # RoPE
LLAMA3 = ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")  # all of them are needed
NUMBERS = (*LLAMA3, "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
SWITCHED = ("qwen2", "qwen3", "qwen3_moe", "llama")  # without use_sliding_window they have no window
LAYERS = ("full_attention", "sliding_attention")
EXPERTS = ("num_experts", "num_experts_per_tok", "moe_intermediate_size")
FIRST_WINDOWED = 28  # default of max_window_layers
LARGEST_ENTRY = 1 << 32  # of a RoPE scaling parameter


def unsupported_features(config: Config) -> str:
    """Return, in words, what a valid config needs that no stage supports; "" if nothing."""
    needed = {
        "a mixture of experts": config["model_type"] == "qwen3_moe",
        "a sliding window": is_windowed(config),
        f"RoPE scaling of type {rope_type(config)!r}": rope_type(config) not in ("default", "llama3"),
    }
    return next((words for words, is_needed in needed.items() if is_needed), "")


def with_window(file: Path, config: Config, window: int | None, sinks: int | None) -> Config:
    """Return the config with a sliding window in every layer, or with other sinks; raise UsageError if impossible."""
    if window is not None:
        types = ["sliding_attention"] * config["num_hidden_layers"]
        config = {**config, "sliding_window": window, "use_sliding_window": True, "layer_types": types}
        check_features(file, config)
    if sinks is not None:
        if not is_windowed(config):
            raise UsageError(f"{file} has no sliding window, so sinks have no effect. Add one with --window.")
        config = {**config, "attention_sinks": sinks}
    return config


def rope_table(config: Config) -> dict[str, Any]:
    """Return the merged rope_parameters (newer files) and rope_scaling (older files); empty if there are none."""
    newer, older = (config.get(name) or {} for name in ("rope_parameters", "rope_scaling"))
    newer, older = (table if isinstance(table, dict) else {"rope_type": table} for table in (newer, older))
    return {**newer, **older}


def rope_type(config: Config) -> Any:
    """Return the type of RoPE scaling; "default" is none."""
    table = rope_table(config)
    return table.get("rope_type") or table.get("type") or "default"


def is_windowed(config: Config) -> bool:
    """Return whether some layer has a sliding window."""
    kinds, layers = config.get("layer_types"), config["num_hidden_layers"]
    if isinstance(kinds, list):
        return "sliding_attention" in kinds
    is_on = config.get("use_sliding_window", config["model_type"] not in SWITCHED)
    if not is_on or config.get("sliding_window") is None:
        return False
    first = config.get("max_window_layers", FIRST_WINDOWED) if config["model_type"] in ("qwen2", "qwen3") else 0
    return bool(first < layers)


def is_sparse(config: Config, number: int) -> bool:
    """Return whether the layer of this number has experts in place of one MLP."""
    if config["model_type"] != "qwen3_moe" or number in (config.get("mlp_only_layers") or ()):
        return False
    return bool((number + 1) % (config.get("decoder_sparse_step") or 1) == 0)


def check_features(file: Path, config: Config) -> None:
    """Raise UsageError for what the engine would silently compute wrongly, and for contradictions."""
    _check_windows(file, config)
    _check_rope(file, config)
    if config["model_type"] == "qwen3_moe":
        _check_experts(file, config)


def _check_rope(file: Path, config: Config) -> None:
    name = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    table, kind = rope_table(config), rope_type(config)
    if kind != "default" and (not isinstance(kind, str) or kind not in SCALED):
        known = ", ".join(map(repr, ("default", *SCALED)))
        raise UsageError(f"{file} has {name} of type {shortened(repr(kind))}, expected {known}")
    if any(isinstance(value, dict) for value in table.values()):
        raise UsageError(f"{file} has a different RoPE for each layer type, but this engine has one for all layers")
    for key in ("factor", *NUMBERS) if kind != "default" else ():
        value: Any = table.get(key)
        if value is None and key != "factor" and not (kind == "llama3" and key in LLAMA3):
            continue
        check_number(file, f"{name} of type {kind!r} with {key}", value, float(key == "factor"), LARGEST_ENTRY)
    if kind == "llama3" and table["low_freq_factor"] >= table["high_freq_factor"]:
        low = table["low_freq_factor"]
        raise UsageError(f"{file} has low_freq_factor = {low}, expected less than high_freq_factor")
    if (part := table.get("partial_rotary_factor", config.get("partial_rotary_factor"))) not in (None, 1):
        what = f"partial_rotary_factor = {part!r}, but this engine's RoPE rotates whole heads only"
        raise UsageError(f"{file} has {what}")
    if kind == "dynamic" and is_windowed(config):
        raise UsageError(f"{file} has RoPE scaling of type 'dynamic' and a sliding window; no engine supports both")


def _check_windows(file: Path, config: Config) -> None:
    kinds, layers = config.get("layer_types"), config["num_hidden_layers"]
    first = config.get("max_window_layers", FIRST_WINDOWED)
    if not isinstance(kinds, list | None):
        raise UsageError(f"{file} has layer_types = {shortened(repr(kinds))}, expected a list")
    check_number(file, "max_window_layers", first, 0)
    if isinstance(kinds, list):
        if odd := next((kind for kind in kinds if kind not in LAYERS), None):
            raise UsageError(f"{file} has a layer of type {odd!r}, expected {', '.join(map(repr, LAYERS))}")
        if len(kinds) != layers:
            raise UsageError(f"{file} has {len(kinds)} layer_types, expected one for each of {layers} layers")
        if is_windowed(config) and not config.get("use_sliding_window", config["model_type"] not in SWITCHED):
            raise UsageError(f"{file} has layers of type 'sliding_attention', but use_sliding_window is not true")
    check_number(file, "attention_sinks", config.get("attention_sinks", 0), 0)
    if is_windowed(config):
        check_number(file, "sliding_window", config.get("sliding_window"))


def _check_experts(file: Path, config: Config) -> None:
    if missing := [name for name in EXPERTS if config.get(name) is None]:
        raise UsageError(f"{file} lacks {', '.join(missing)}")
    for name in (*EXPERTS, *(name for name in ("decoder_sparse_step",) if config.get(name) is not None)):
        check_number(file, name, config[name])
    if config["num_experts_per_tok"] > config["num_experts"]:
        chosen, there = config["num_experts_per_tok"], config["num_experts"]
        raise UsageError(f"{file} has num_experts_per_tok = {chosen}, expected at most its {there} experts")
    dense = config.get("mlp_only_layers") or []
    if not isinstance(dense, list) or not all(type(number) is int for number in dense):
        raise UsageError(f"{file} has mlp_only_layers = {shortened(repr(dense))}, expected a list of layer numbers")
