"""A model's dimensions and its features beyond week 1, read from a checkpoint's config.json."""

import dataclasses
from typing import Any

from ..config import ModelConfig, rope_entries
from ..local_attention.layers import layer_windows

ARCHITECTURES = ("qwen3", "qwen2", "qwen3_moe", "llama", "mistral")


@dataclasses.dataclass(frozen=True)
class Experts:
    """Which layers have experts, and how a token is routed."""

    layers: frozenset[int]
    count: int  # X
    width: int  # I, of each expert
    top_k: int
    normalize: bool  # whether a token's weights are normalized to sum to one


@dataclasses.dataclass(frozen=True)
class FurtherConfig:
    """The configuration of a model of one of these architectures."""

    base: ModelConfig  # what week 1's models have as well
    norms: bool  # of each head's queries and keys (Qwen3)
    biases: bool  # of queries, keys and values (Qwen2.5)
    windows: tuple[int | None, ...]  # per layer, the number of tokens that a token sees, itself included; None for all
    sinks: int  # first tokens that every window layer also sees
    experts: Experts | None
    scaled: bool  # whether RoPE is scaled
    rope_after_cache: bool  # frequencies depend on the length, so keys are cached unrotated and rotated at each step
    entries: dict[str, Any]  # of config.json, for `rope_of`
    max_position_embeddings: int  # the longest sequence, RoPE scaling included

    @staticmethod
    def from_dict(config: dict[str, Any]) -> "FurtherConfig":
        """Read the contents of a config.json, ignoring other entries.

        No public config.json states a number of sinks, since a model runs with and without: `attention_sinks` is our
        own entry.

        Raises:
            ValueError: the architecture is unknown, an entry is missing, or two entries cannot be combined.
        """
        kind = config.get("model_type")
        if kind not in ARCHITECTURES:
            raise ValueError(f"model_type is {kind!r}, known are {', '.join(ARCHITECTURES)}")
        base = ModelConfig.from_dict({**config, "model_type": "qwen3" if kind == "qwen3_moe" else kind})
        layers = base.num_hidden_layers
        windows = tuple(layer_windows(config)) if _asks_for_windows(config) else (None,) * layers
        scaling = (rope := rope_entries(config))["rope_type"]
        if scaling == "dynamic" and any(windows):
            raise ValueError("RoPE scaling of type 'dynamic' and sliding windows do not go together here")
        return FurtherConfig(
            base,
            norms=kind in ("qwen3", "qwen3_moe"),
            biases=kind == "qwen2",
            windows=windows,
            sinks=config.get("attention_sinks") or 0,
            experts=_experts(config, layers) if kind == "qwen3_moe" else None,
            scaled=scaling != "default",
            rope_after_cache=scaling == "dynamic",
            entries=config,
            max_position_embeddings=_longest(
                base.max_position_embeddings, rope if scaling not in ("default", "llama3") else {}
            ),
        )


def _asks_for_windows(config: dict[str, Any]) -> bool:
    """Return whether any layer may have a window. sliding_window does not tell: Qwen's files state unused ones."""
    if "sliding_attention" in (config.get("layer_types") or ()):
        return True
    return config["model_type"] == "mistral" or bool(config.get("use_sliding_window"))


def _experts(config: dict[str, Any], layers: int) -> Experts:
    config = {"num_experts": config.get("num_local_experts"), **config}  # the name in transformers 5
    names = ("num_experts", "moe_intermediate_size", "num_experts_per_tok")
    if missing := [name for name in names if config.get(name) is None]:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    step, dense = config.get("decoder_sparse_step") or 1, config.get("mlp_only_layers") or ()
    sparse = frozenset(i for i in range(layers) if i not in dense and (i + 1) % step == 0)
    count, width, top_k = (config[name] for name in names)
    return Experts(sparse, count, width, top_k, normalize=bool(config.get("norm_topk_prob")))


def _longest(stated: int, rope: dict[str, Any]) -> int:
    """Return the longest supported length: older files state the trained length, newer ones often the scaled one.

    Files with a scaling of type llama3 always state the scaled one, and get no `rope`.
    """
    original = rope.get("original_max_position_embeddings") or stated
    return max(stated, int(original * rope.get("factor", 1)))
