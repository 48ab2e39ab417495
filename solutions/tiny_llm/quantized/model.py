"""The model of stage `quantized`: KV caches and packed matrices."""

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.model import Qwen3CachedModel
from .parts import Quantized


class Qwen3QuantizedModel(Qwen3CachedModel):
    """`Qwen3CachedModel` with every matrix in 4 or 8 bits per weight."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers from a checkpoint's weights, quantized or not.

        Raises:
            KeyError: a weight is missing.
        """
        super().__init__(config, weights, Quantized.like(config, weights))
