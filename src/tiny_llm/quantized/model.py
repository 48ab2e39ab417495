"""The model of the stage `quantized`: the one with caches, and its matrices packed."""

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.model import Qwen3CachedModel
from .parts import Quantized


class Qwen3QuantizedModel(Qwen3CachedModel):
    """Token ids in, logits for the next token out, with every matrix in 4 or 8 bits a weight."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint; its matrices may be quantized.

        Raises:
            KeyError: a weight is missing.
        """
        super().__init__(config, weights, Quantized.like(config, weights))
