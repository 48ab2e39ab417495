"""The fused engine with flash attention."""

import mlx.core as mx

from ..config import ModelConfig
from .fused import Qwen3FusedModel, fused_if_packed
from .model import Qwen3KernelModel


def flash_if_packed(config: ModelConfig, weights: dict[str, mx.array]) -> Qwen3FusedModel | Qwen3KernelModel:
    """Return the fused model with `flash.cpp` for attention, or `Qwen3KernelModel` where `fused_if_packed` does.

    Raises:
        KeyError: a weight is missing.
    """
    return fused_if_packed(config, weights, flash=True)
