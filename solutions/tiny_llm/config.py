"""A model's dimensions, read from a checkpoint's config.json."""

import dataclasses
from typing import Any

import mlx.core as mx

# Each model_type, by the one of two architectures that computes it.
ARCHITECTURES = {"qwen3": "qwen3", "qwen2": "qwen2", "llama": "qwen2", "mistral": "qwen2"}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The configuration of a model, under the names of config.json.

    Qwen3 has q/k norms, Qwen2.5 has q, k, v biases. Llama 3 and Mistral have neither: their model_type here is "qwen2",
    and their weights need `zero_biases`.
    """

    model_type: str  # "qwen3", or "qwen2" for Qwen2.5
    hidden_size: int  # E
    num_hidden_layers: int
    intermediate_size: int  # I, the MLP's width
    num_attention_heads: int  # H
    num_key_value_heads: int  # H_kv
    head_dim: int  # D; H * D may differ from E
    vocab_size: int  # V
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    tie_word_embeddings: bool

    @staticmethod
    def from_dict(config: dict[str, Any]) -> "ModelConfig":
        """Read the contents of a config.json, ignoring other entries.

        Raises:
            ValueError: the architecture is unknown, or an entry is missing.
        """
        kind = config.get("model_type")
        if kind not in ARCHITECTURES:
            raise ValueError(f"model_type is {kind!r}, known are {', '.join(ARCHITECTURES)}")
        known = {**config, "model_type": ARCHITECTURES[kind]}
        # Newer files have theta in rope_parameters; older ones omit head_dim and, if it is H, the number of kv heads.
        if known.get("rope_theta") is None:
            known["rope_theta"] = (config.get("rope_parameters") or {}).get("rope_theta")
        if known.get("head_dim") is None and {"hidden_size", "num_attention_heads"} <= known.keys():
            known["head_dim"] = known["hidden_size"] // known["num_attention_heads"]
        if known.get("num_key_value_heads") is None:
            known["num_key_value_heads"] = known.get("num_attention_heads")
        known.setdefault("tie_word_embeddings", False)
        names = [field.name for field in dataclasses.fields(ModelConfig)]
        missing = [name for name in names if known.get(name) is None]
        if missing:
            raise ValueError(f"config.json lacks {', '.join(missing)}")
        return ModelConfig(**{name: known[name] for name in names})


def zero_biases(config: dict[str, Any], dtype: mx.Dtype) -> dict[str, mx.array]:
    """Return the weights that a model without q/k norms and biases lacks as a Qwen2.5, by their names in a checkpoint.

    Args:
        config: the contents of a config.json.
        dtype: of the other weights.
    """
    kind = config["model_type"]
    if ARCHITECTURES.get(kind, kind) == kind:
        return {}
    c = ModelConfig.from_dict(config)
    heads = {"q": c.num_attention_heads, "k": c.num_key_value_heads, "v": c.num_key_value_heads}
    names = [(f"model.layers.{i}.self_attn.{x}_proj.bias", x) for i in range(c.num_hidden_layers) for x in heads]
    return {name: mx.zeros(heads[x] * c.head_dim, dtype) for name, x in names}


def rope_entries(config: dict[str, Any]) -> dict[str, Any]:
    """Return the rope_parameters, or in older files rope_scaling, with a rope_type; "default" means no scaling."""
    table = {**(config.get("rope_parameters") or {}), **(config.get("rope_scaling") or {})}
    return {**table, "rope_type": table.get("rope_type") or table.get("type") or "default"}
