"""Small random models that ask for more than a stage has, as config.json says it: windows, scaled RoPE, experts."""

from typing import Any

import mlx.core as mx
from tests.course.checkpoint_folders import small
from tests.week1.reference_model import QWEN3, QWEN25, ReferenceModel

from tiny_llm_course.testkit.inputs import normals

WINDOW = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1, "num_hidden_layers": 3}
EXPERTS = {
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 48,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
ORIGINAL = 16  # positions that the model was trained with, where RoPE is scaled


def scaled(**table: Any) -> dict[str, Any]:
    """The entries of a config whose RoPE is scaled, as older files have them."""
    return {"rope_scaling": {"factor": 4.0, **table}, "max_position_embeddings": ORIGINAL}


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
}
YARN = scaled(rope_type="yarn", original_max_position_embeddings=ORIGINAL, beta_fast=8, beta_slow=0.5)
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "qwen3, windows from layer 1 on": (QWEN3, WINDOW),
    "qwen2.5, windows from layer 1 on": (QWEN25, WINDOW),
    "qwen3, windows by layer types": (
        QWEN3,
        {
            "use_sliding_window": True,
            "sliding_window": 4,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "mistral": (QWEN25, {"model_type": "mistral", "sliding_window": 6}),
    "mistral without windows": (QWEN25, {"model_type": "mistral", "sliding_window": None}),
    "qwen3, linear": (QWEN3, scaled(rope_type="linear")),
    "qwen2.5, dynamic": (QWEN25, scaled(type="dynamic")),
    "qwen3, yarn": (QWEN3, YARN),
    "qwen3, yarn in new words": (
        QWEN3,
        {
            "rope_parameters": {**YARN["rope_scaling"], "rope_theta": 10000.0, "attention_factor": 1.3},
            "rope_theta": None,
        },
    ),
    "qwen3, yarn and windows": (QWEN3, {**WINDOW, **YARN}),
    "experts": (QWEN3, {"model_type": "qwen3_moe", **EXPERTS}),
    "experts in every second layer": (
        QWEN3,
        {
            "model_type": "qwen3_moe",
            **EXPERTS,
            "num_hidden_layers": 5,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
        },
    ),
    "experts whose weights do not sum to one": (QWEN3, {"model_type": "qwen3_moe", **EXPERTS, "norm_topk_prob": False}),
    "experts, windows and yarn": (
        QWEN3,
        {"model_type": "qwen3_moe", **EXPERTS, **YARN, "use_sliding_window": True, "sliding_window": 6},
    ),
}


def further(name: str, seed: int = 1, dtype: mx.Dtype = mx.float32, **changes: Any) -> ReferenceModel:
    """One of CHANGES, with seeded weights."""
    base, more = CHANGES[name]
    return of_config(base, seed, dtype, **{**more, **changes})


def of_config(base: dict[str, Any], seed: int, dtype: mx.Dtype = mx.float32, **changes: Any) -> ReferenceModel:
    """A model of any family, with seeded weights; those of experts stand one by one, as on the Hub."""
    model = small(base, seed, dtype, **changes)
    if model.config["model_type"] == "qwen2":
        return model
    weights = {key: w for key, w in model.weights.items() if not key.endswith("_proj.bias")}
    if model.config["model_type"] in ("llama", "mistral"):
        return ReferenceModel(model.config, weights)
    draw = normals(seed + 1000, dtype)
    width, hidden = model.config.get("moe_intermediate_size", 0), model.config["hidden_size"]
    for number in range(model.config["num_hidden_layers"]):
        mlp = f"model.layers.{number}.mlp"
        shapes = {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
        norms = {f"model.layers.{number}.self_attn.{x}_norm.weight": (model.config["head_dim"],) for x in "qk"}
        weights |= {key: 1 + draw(*shape, spread=0.3) for key, shape in norms.items() if key not in weights}
        if sparse(model.config, number):
            weights = {key: w for key, w in weights.items() if not key.startswith(f"{mlp}.")}
            weights[f"{mlp}.gate.weight"] = draw(model.config["num_experts"], hidden, spread=hidden**-0.5)
            for expert in range(model.config["num_experts"]):
                for part, (rows, inputs) in shapes.items():
                    weights[f"{mlp}.experts.{expert}.{part}_proj.weight"] = draw(rows, inputs, spread=inputs**-0.5)
    return ReferenceModel(model.config, weights)


def sparse(config: dict[str, Any], number: int) -> bool:
    """Whether this layer has experts."""
    if config["model_type"] != "qwen3_moe" or number in config["mlp_only_layers"]:
        return False
    return bool((number + 1) % config["decoder_sparse_step"] == 0)


def stacked(model: ReferenceModel) -> ReferenceModel:
    """The same model with all experts of a layer in one array, as mlx-lm writes it."""
    weights = {key: w for key, w in model.weights.items() if ".experts." not in key}
    for number in range(model.config["num_hidden_layers"]):
        mlp = f"model.layers.{number}.mlp"
        for part in ("gate", "up", "down") if sparse(model.config, number) else ():
            names = [f"{mlp}.experts.{i}.{part}_proj.weight" for i in range(model.config["num_experts"])]
            weights[f"{mlp}.switch_mlp.{part}_proj.weight"] = mx.stack([model.weights[name] for name in names])
    return ReferenceModel(model.config, weights)
