"""Whether an engine may quantize a model's weights, and what runs, in words."""

from pathlib import Path
from typing import Any

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.weights import open_weights, storage_of
from ..course.registry import UsageError
from ..paths import EMBEDDED_MODEL


def may_pack(folder: Path, config: dict[str, Any], bits: int | None) -> bool:
    """Return whether a stage that packs may be the default: with `bits`, without loss, or for the course's two models.

    Raise UsageError if the weights are quantized already, and `bits` given.
    """
    words, alike = storage_of(open_weights(folder), config.get("quantization"))
    if bits and "-bit" in words:
        raise UsageError(f"{folder} has {words} weights; --bits quantizes weights of full precision only.")
    ours = folder.resolve() in (EMBEDDED_MODEL, EMBEDDED_MODEL.with_name("tiny-qwen3-draft"))
    return alike or bits is not None or ours


def runs(name: str, checkpoint: Checkpoint, weights: dict[str, mx.array], packs: bool, simulated: bool = False) -> str:
    """Return what runs in a line, such as "fused, 4-bit weights made from bfloat16"."""
    hidden, table = checkpoint.config["hidden_size"], weights["model.embed_tokens.weight"]
    kept = f"{32 * table.shape[-1] // hidden}-bit" if table.dtype == mx.uint32 else "4-bit"
    if table.dtype != mx.uint32 and (not packs or hidden % 64):
        kept = str(table.dtype).removeprefix("mlx.core.")
    made = "as stored" if kept == checkpoint.stored_as else f"made from {checkpoint.stored_as}"
    return f"{name}, {kept} weights {made}{', on the simulator' * simulated}"
