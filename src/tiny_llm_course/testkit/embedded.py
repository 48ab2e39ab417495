"""The trained model that comes with the course, for tests of whole models."""

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint, load_checkpoint
from ..paths import EMBEDDED_MODEL


def embedded_checkpoint(dtype: mx.Dtype = mx.float32) -> Checkpoint:
    """Its config, its weights in this dtype, its tokenizer's files."""
    return load_checkpoint(EMBEDDED_MODEL, dtype)
