"""The formulas of day 3 in plain Python and NumPy float64: which keys a window allows, and which layers have one."""

from typing import Any

import numpy as np
from tests.week1.formulas import grouped64

from tiny_llm_course.testkit.rounding import Array64, Round, exact


def sees(query: int, key: int, window: int | None, sinks: int = 0) -> bool:
    """Return whether the token at one position sees the one at another."""
    if key > query:
        return False
    return window is None or query - key < window or key < sinks


def window64(length: int, keys: int, window: int | None, sinks: int = 0) -> Array64:
    """Return 0 where a key is visible, -inf where it is not; the last query is at the last key."""
    rows = [[sees(p, j, window, sinks) for j in range(keys)] for p in range(keys - length, keys)]
    return np.where(np.array(rows, np.bool_).reshape(length, keys), 0.0, -np.inf)


def windowed64(
    query: Array64,
    key: Array64,
    value: Array64,
    window: int | None,
    sinks: int = 0,
    scale: float | None = None,
    block_size: int = 64,
    *,
    r: Round = exact,
) -> Array64:
    """Week 1's grouped attention with the full mask; tile boundaries make no difference."""
    mask = window64(query.shape[-2], key.shape[-2], window, sinks)
    return grouped64(query, key, value, scale, mask, r=r)


def windows64(config: dict[str, Any]) -> list[int | None]:
    """Layer after layer, by the rules of the docstring."""
    kind, window = config.get("model_type"), config.get("sliding_window")
    if config.get("use_sliding_window", not str(kind).startswith("qwen")) is False:
        window = None
    found: list[int | None] = []
    for layer in range(config["num_hidden_layers"]):
        pattern = config.get("sliding_window_pattern") or {
            "gemma2": 2,
            "gemma3_text": 6,
            "cohere2": 4,
            "gpt_oss": 2,
        }.get(str(kind))
        if "layer_types" in config and config["layer_types"] is not None:
            local = config["layer_types"][layer] == "sliding_attention"
        elif kind in ("qwen2", "qwen3"):
            local = layer >= config.get("max_window_layers", 28)
        else:
            local = not pattern or layer % pattern != pattern - 1
        found.append(window if local else None)
    return found
