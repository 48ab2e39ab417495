"""RoPE scaling as configured in a checkpoint's config.json."""

import math
from functools import partial
from typing import Any

import mlx.core as mx

from ..config import rope_entries
from .interpolation import linear_frequencies
from .llama3 import LIMITS, llama3_frequencies
from .ntk import ntk_frequencies
from .rope import ScaledRoPE
from .yarn import yarn_frequencies

TYPES = ("default", "linear", "dynamic", "yarn", "llama3")


def rope_of(config: dict[str, Any]) -> ScaledRoPE:
    """Return the RoPE of a model, which all of its layers may share.

    Args:
        config: the contents of a config.json. `rope_scaling` or, in newer files, `rope_parameters` defines the scaling;
            without either there is none.

    Raises:
        ValueError: the type of scaling is unknown, or an entry that it needs is missing.

    Source: `modeling_rope_utils` of transformers.
    """
    kind = (scaling := rope_entries(config))["rope_type"]
    if kind not in TYPES:
        raise ValueError(f"rope_type is {kind!r}, known are {', '.join(TYPES)}")
    if any(isinstance(value, dict) for value in scaling.values()):
        raise ValueError("rope_parameters differ from layer to layer, which is not supported")
    entries = {**config, **scaling}
    if entries.get("partial_rotary_factor") not in (None, 1):
        raise ValueError(f"partial_rotary_factor is {entries['partial_rotary_factor']}, only 1 is supported")
    if entries.get("head_dim") is None and entries.keys() >= {"hidden_size", "num_attention_heads"}:
        entries["head_dim"] = entries["hidden_size"] // entries["num_attention_heads"]
    needed = ["head_dim", "rope_theta", *([] if kind == "default" else ["factor"])]
    needed += {"dynamic": ("max_position_embeddings",), "llama3": LIMITS}.get(kind, ())
    original = entries.get("original_max_position_embeddings") or entries.get("max_position_embeddings")
    missing = [name for name in needed if entries.get(name) is None]
    missing += ["original_max_position_embeddings"] if kind == "yarn" and original is None else []
    if missing:
        raise ValueError(f"config.json lacks {', '.join(missing)}, which rope_type {kind!r} needs")
    dims, base, factor = (
        entries["head_dim"],
        entries["rope_theta"],
        float(1 if entries.get("factor") is None else entries["factor"]),
    )
    if kind == "yarn":
        fast, slow = entries.get("beta_fast") or 32.0, entries.get("beta_slow") or 1.0
        whole = entries.get("truncate", True)
        frequencies, yarn_factor = yarn_frequencies(dims, base, factor, int(original or 0), fast, slow, whole)
        return ScaledRoPE(dims, frequencies, _attention_factor(entries, factor, yarn_factor))
    if kind == "llama3":
        return ScaledRoPE(dims, llama3_frequencies(dims, base, factor, *(entries[name] for name in LIMITS)))
    if kind == "dynamic":
        return ScaledRoPE(dims, partial(_dynamic, dims, base, factor, entries["max_position_embeddings"]))
    return ScaledRoPE(dims, linear_frequencies(dims, base, factor if kind == "linear" else 1))


def _dynamic(dims: int, base: float, factor: float, original_length: int, length: int) -> mx.array:
    return ntk_frequencies(dims, base, factor, length, original_length)


def _attention_factor(entries: dict[str, Any], factor: float, default: float) -> float:
    """Return the stated factor; or the quotient of two, as in DeepSeek's models; or the default, YaRN's own."""
    if entries.get("attention_factor") is not None:
        return float(entries["attention_factor"])
    above, below = entries.get("mscale"), entries.get("mscale_all_dim")
    if above and below:
        return float((0.1 * above * math.log(factor) + 1) / (0.1 * below * math.log(factor) + 1))
    return default
