"""The trained model that ships with the course, for tests of whole models."""

import mlx.core as mx

from ..checkpoints.checkpoint import Checkpoint, load_checkpoint
from ..paths import EMBEDDED_MODEL


def embedded_checkpoint(dtype: mx.Dtype = mx.float32) -> Checkpoint:
    """Return its checkpoint, with weights in this dtype."""
    return load_checkpoint(EMBEDDED_MODEL, dtype)
