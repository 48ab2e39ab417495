"""Writes a model as a Hugging Face folder, which MLX's tools read too."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from tokenizers import Tokenizer
from torch import Tensor

from ..checkpoints.held_out import END
from .conversations import CHAT_TEMPLATE, TURN_BEGIN, TURN_END
from .packing import SPECIAL
from .recipe import Recipe


def export(folder: Path, recipe: Recipe, weights: dict[str, Tensor], tokenizer: Tokenizer) -> None:
    """Write config.json, generation_config.json, the tokenizer's two files, and the weights in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    config = recipe.architecture.config()
    rope = {"rope_type": "default", "rope_theta": recipe.architecture.rope_theta}  # for transformers 5
    eos = [ids[TURN_END], ids[END]]
    ends = {"eos_token_id": eos, "pad_token_id": ids[END]}
    _write(folder / "config.json", {**config, "rope_parameters": rope, "dtype": "bfloat16", **ends})
    _write(folder / "generation_config.json", {**ends, "do_sample": True, "temperature": 1.0, "min_p": 0.1})
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": recipe.architecture.max_position_embeddings,
        "eos_token": TURN_END,
        "pad_token": END,
        "additional_special_tokens": [TURN_BEGIN],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    _write(folder / "tokenizer_config.json", settings)
    arrays = {name: mx.array(np.asarray(w.detach().float().cpu())).astype(mx.bfloat16) for name, w in weights.items()}
    half_written = folder / ".part.safetensors"  # loaders skip this name
    mx.save_safetensors(str(half_written), arrays, {"format": "pt"})
    half_written.replace(folder / "model.safetensors")


def _write(file: Path, table: dict[str, Any]) -> None:
    file.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
