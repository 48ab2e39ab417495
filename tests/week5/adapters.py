"""Adapters for the tests and known programs of tasks 5.5.3 and 5.5.4, and a reader and a writer of both forms."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals

Q0, V0, Q1 = (f"model.layers.{where}_proj" for where in ("0.self_attn.q", "0.self_attn.v", "1.self_attn.q"))
DOWN11 = "model.layers.11.mlp.down_proj"
SIZES = {Q0: (5, 7), V0: (3, 7), Q1: (5, 7), DOWN11: (7, 6)}  # O x I
FILES = {"peft": "adapter_model.safetensors", "mlx-lm": "adapters.safetensors"}


def drawn(seed, names=(Q0, V0, Q1, DOWN11), rank=2, dtype=mx.float32):
    """Return the weights of an adapter, by the names of `Adapter.weights`."""
    draw, weights = normals(seed, dtype), {}
    for name in names:
        outputs, inputs = SIZES[name]
        weights[f"{name}.lora_a"], weights[f"{name}.lora_b"] = draw(rank, inputs), draw(outputs, rank)
    return weights


def config_of(form: str, rank: int, alpha: float, **more: Any) -> dict[str, Any]:
    """Return the contents of an adapter_config.json."""
    if form == "peft":
        return {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": ["q_proj"], **more}
    parameters = {"rank": rank, "scale": alpha / rank, "dropout": 0.0}
    return {"fine_tune_type": "lora", "num_layers": 16, "lora_parameters": parameters, **more}


def tensors_of(form: str, weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """Return the weights under the names, and in the layout, of a form."""
    if form == "mlx-lm":
        return {name: w.T for name, w in weights.items()}
    changed = {name.replace("lora_a", "lora_A").replace("lora_b", "lora_B"): w for name, w in weights.items()}
    return {f"base_model.model.{name}.weight": w for name, w in changed.items()}


def write(folder: Path, form: str, tensors: dict[str, mx.array], config: dict[str, Any]) -> Path:
    """Write an adapter folder as another program would, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / FILES[form]), tensors)
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
