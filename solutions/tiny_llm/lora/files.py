"""Adapter folders in the two common formats, those of PEFT and of mlx-lm."""

import json
import re
from pathlib import Path
from typing import Any

import mlx.core as mx

from .adapter import Adapter, Params

# What changes the result in a way that `Adapter` cannot express, and the only value that does not.
PEFT_DEFAULTS = {"use_dora": False, "fan_in_fan_out": False, "bias": "none", "modules_to_save": None}
PEFT_PATTERNS = ("rank_pattern", "alpha_pattern")  # other ranks or alphas for some projections: must be empty


def save_adapter(folder: Path, adapter: Adapter, form: str) -> None:
    """Write an adapter folder that PEFT or mlx-lm can load: adapter_config.json and the weights in their own dtypes.

    Letters: I inputs, O outputs, r the rank. NAME is a projection's full name, such as
    "model.layers.0.self_attn.q_proj".

    Args:
        folder: is created if it does not exist.
        adapter: what to write. It is not changed.
        form: "peft" writes adapter_model.safetensors, with "base_model.model.NAME.lora_A.weight", r x I, and
            "base_model.model.NAME.lora_B.weight", O x r. Its config has "peft_type": "LORA", "task_type": "CAUSAL_LM",
            "r", "lora_alpha" and "target_modules", the sorted last parts of the names, such as "q_proj".
            "mlx-lm" writes adapters.safetensors, with "NAME.lora_a", I x r, and "NAME.lora_b", r x O. Its config has
            "fine_tune_type": "lora", "num_layers": -1, for all, and "lora_parameters": "rank", "scale", which is
            alpha / r, "dropout": 0.0, and "keys", the sorted names within a layer, such as "self_attn.q_proj".

    Raises:
        ValueError: another form. Nothing is written.

    Source: `peft.LoraConfig`; `mlx_lm.tuner.utils.load_adapters`.
    """
    names = adapter.projections
    pairs = {name: (adapter.weights[f"{name}.lora_a"], adapter.weights[f"{name}.lora_b"]) for name in names}
    weights: Params = {}
    config: dict[str, Any]
    if form == "peft":
        file = "adapter_model.safetensors"
        for name, (a, b) in pairs.items():
            weights[f"base_model.model.{name}.lora_A.weight"] = a
            weights[f"base_model.model.{name}.lora_B.weight"] = b
        modules = sorted({name.rpartition(".")[2] for name in names})
        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": adapter.rank, "lora_alpha": adapter.alpha}
        config |= {"target_modules": modules, "lora_dropout": 0.0, "bias": "none", "inference_mode": True}
    elif form == "mlx-lm":
        file = "adapters.safetensors"
        for name, (a, b) in pairs.items():
            weights[f"{name}.lora_a"], weights[f"{name}.lora_b"] = a.T, b.T
        keys = sorted({re.sub(r"^model\.layers\.\d+\.", "", name) for name in names})
        parameters = {"rank": adapter.rank, "scale": adapter.scale, "dropout": 0.0, "keys": keys}
        config = {"fine_tune_type": "lora", "num_layers": -1, "lora_parameters": parameters}
    else:
        raise ValueError(f"form is {form!r}, known are 'peft' and 'mlx-lm'")
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / file), weights, {"format": "pt" if form == "peft" else "mlx"})
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_adapter(folder: Path) -> Adapter:
    """Load an adapter from a folder in PEFT's or mlx-lm's format, which `save_adapter` describes.

    The entries of adapter_config.json decide the format: "peft_type" is PEFT's, "lora_parameters" is mlx-lm's.

    Args:
        folder: the folder of the adapter.

    Returns:
        The adapter, its arrays in the file's dtypes. alpha is such that alpha / r is the update's factor: PEFT's is
        lora_alpha / r, or lora_alpha / sqrt(r) if the config says "use_rslora": true; mlx-lm's is "scale".

    Raises:
        ValueError: the folder holds something else. The message names the entry of the config, or the tensor.

            - The config has neither key. Or "peft_type" is not "LORA". Or "fine_tune_type" is given and not "lora".
            - PEFT's config has "use_dora", "fan_in_fan_out" or "modules_to_save" set, a "bias" other than "none", or a
              "rank_pattern" or "alpha_pattern" that is not empty.
            - A tensor has a name that the format does not have. Or a projection lacks A or B.
            - An A or a B does not have the config's rank.
    """
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    if "peft_type" in config:
        alpha, rank = _of_peft(config), config["r"]
        file, pattern = "adapter_model.safetensors", r"base_model\.model\.(.+)\.lora_([AB])\.weight"
    elif "lora_parameters" in config:
        if (kind := config.get("fine_tune_type", "lora")) != "lora":
            raise ValueError(f"fine_tune_type is {kind!r}, supported is 'lora'")
        rank = config["lora_parameters"]["rank"]
        alpha = config["lora_parameters"]["scale"] * rank
        file, pattern = "adapters.safetensors", r"(.+)\.lora_([ab])"
    else:
        raise ValueError("adapter_config.json has neither peft_type nor lora_parameters")
    weights: Params = {}
    loaded = mx.load(str(folder / file))
    assert isinstance(loaded, dict)
    for tensor, w in loaded.items():
        if not (match := re.fullmatch(pattern, tensor)):
            raise ValueError(f"{tensor} is not a tensor of this form of LoRA")
        which = match[2].lower()
        weights[f"{match[1]}.lora_{which}"] = w = w if "peft_type" in config else w.T
        if w.shape[0 if which == "a" else 1] != rank:
            raise ValueError(f"{tensor} has shape {w.shape}, but the config's rank is {rank}")
    for name in weights:
        if (other := name[:-1] + ("b" if name.endswith("a") else "a")) not in weights:
            raise ValueError(f"there is {name}, but no {other}")
    return Adapter(weights, alpha)


def _of_peft(config: dict[str, Any]) -> float:
    """Return the alpha of PEFT's config; raise ValueError if an `Adapter` cannot represent it."""
    if config["peft_type"] != "LORA":
        raise ValueError(f"peft_type is {config['peft_type']!r}, supported is 'LORA'")
    for entry, only in PEFT_DEFAULTS.items():
        if (config.get(entry) or only) != only:
            raise ValueError(f"{entry} is {config[entry]!r}, supported is {only!r}")
    for entry in PEFT_PATTERNS:
        if config.get(entry):
            raise ValueError(f"{entry} is {config[entry]!r}, supported is one rank and one alpha for all")
    rank: int = config["r"]
    return float(config["lora_alpha"] * (rank**0.5 if config.get("use_rslora") else 1))
