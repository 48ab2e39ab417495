"""The fused engine with attention in blocks."""

import mlx.core as mx

from ..config import ModelConfig
from .fused import Qwen3FusedModel, fused_if_packed
from .model import Qwen3KernelModel


def flash_if_packed(config: ModelConfig, weights: dict[str, mx.array]) -> Qwen3FusedModel | Qwen3KernelModel:
    """The fused model with `flash.cpp` for attention, or `Qwen3KernelModel` where `fused_if_packed` gives that.

    Raises:
        KeyError: a weight is missing.
    """
    return fused_if_packed(config, weights, flash=True)
