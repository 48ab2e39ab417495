"""Adapter folders in the two common formats, those of PEFT and of mlx-lm."""

from pathlib import Path

from .adapter import Adapter

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
    raise NotImplementedError("5.5.3 Save an adapter")


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
    raise NotImplementedError("5.5.4 Load an adapter")
