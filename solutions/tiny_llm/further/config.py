"""A model's measures and what it asks for beyond week 1, as a checkpoint's config.json states them."""

import dataclasses
from typing import Any

from ..config import ModelConfig
from ..local_attention.layers import layer_windows

ARCHITECTURES = ("qwen3", "qwen2", "qwen3_moe", "mistral")


@dataclasses.dataclass(frozen=True)
class Experts:
    """Which layers have experts, and how many of them a token goes to."""

    layers: frozenset[int]
    count: int  # X
    width: int  # of each
    top_k: int
    normalize: bool  # whether a token's weights sum to one


@dataclasses.dataclass(frozen=True)
class FurtherConfig:
    """What distinguishes one model of these architectures from another."""

    measures: ModelConfig  # those that all models have
    norms: bool  # of each head's queries and keys (Qwen3)
    biases: bool  # of queries, keys and values (Qwen2.5)
    windows: tuple[int | None, ...]  # for each layer the tokens that one sees, itself among them; None for all
    sinks: int  # first tokens that a window has besides
    experts: Experts | None
    scaled: bool  # whether RoPE's paces are scaled
    late: bool  # whether these depend on how long the text is, so that keys are turned when they are used
    entries: dict[str, Any]  # of config.json, for `rope_of`
    max_position_embeddings: int  # the longest text, with RoPE as it is scaled

    @staticmethod
    def from_dict(config: dict[str, Any]) -> "FurtherConfig":
        """Read the contents of a config.json; what else it holds is left aside.

        No public config.json says how many sinks there are, since a model runs with and without: `attention_sinks` is
        our own entry.

        Raises:
            ValueError: the architecture is unknown, an entry is missing, or two that are there do not go together.
        """
        kind = config.get("model_type")
        if kind not in ARCHITECTURES:
            raise ValueError(f"model_type is {kind!r}, known are {', '.join(ARCHITECTURES)}")
        measures = ModelConfig.from_dict({**config, "model_type": "qwen2" if kind == "qwen2" else "qwen3"})
        layers = measures.num_hidden_layers
        windows = tuple(layer_windows(config)) if _asks_for_windows(config) else (None,) * layers
        rope = {**(config.get("rope_parameters") or {}), **(config.get("rope_scaling") or {})}
        scaling = rope.get("rope_type") or rope.get("type") or "default"
        if scaling == "dynamic" and any(windows):
            raise ValueError("RoPE scaling of type 'dynamic' and sliding windows do not go together here")
        return FurtherConfig(
            measures,
            norms=kind in ("qwen3", "qwen3_moe"),
            biases=kind == "qwen2",
            windows=windows,
            sinks=config.get("attention_sinks") or 0,
            experts=_experts(config, layers) if kind == "qwen3_moe" else None,
            scaled=scaling != "default",
            late=scaling == "dynamic",
            entries=config,
            max_position_embeddings=_longest(measures.max_position_embeddings, rope if scaling != "default" else {}),
        )


def _asks_for_windows(config: dict[str, Any]) -> bool:
    """Whether any layer may have one: the entry alone does not say it, as Qwen's files state a window that is off."""
    if "sliding_attention" in (config.get("layer_types") or ()):
        return True
    return config["model_type"] == "mistral" or bool(config.get("use_sliding_window"))


def _experts(config: dict[str, Any], layers: int) -> Experts:
    config = {"num_experts": config.get("num_local_experts"), **config}  # transformers 5 writes it so
    names = ("num_experts", "moe_intermediate_size", "num_experts_per_tok")
    if missing := [name for name in names if config.get(name) is None]:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    step, dense = config.get("decoder_sparse_step") or 1, config.get("mlp_only_layers") or ()
    sparse = frozenset(i for i in range(layers) if i not in dense and (i + 1) % step == 0)
    count, width, top_k = (config[name] for name in names)
    return Experts(sparse, count, width, top_k, normalize=bool(config.get("norm_topk_prob")))


def _longest(stated: int, rope: dict[str, Any]) -> int:
    """Older files state the length that the model was trained with, newer ones often the longer one."""
    original = rope.get("original_max_position_embeddings") or stated
    return max(stated, int(original * rope.get("factor", 1)))
