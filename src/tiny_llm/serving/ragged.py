"""The model over a ragged batch: the tokens of all requests in one row, however many each brings.

Everything but attention looks at one token at a time, and does not ask whose it is. So one product with each matrix
serves all requests, and the matrix comes from memory once.
"""

import mlx.core as mx

from ..config import ModelConfig
from ..layer_norm import RMSNorm
from ..positional_encoding import rotation_angles
from ..qwen3_cached.decoder import Decoder
from ..qwen3_cached.parts import DENSE, Dense
from .memory import Memory
from .request import Chunk


class RaggedModel(Decoder):
    """Chunks of many requests in, logits for their next tokens out."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense = DENSE) -> None:
        """Build the layers.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint, as `Qwen3Model` takes them.
            parts: makes all matrices of the weights, as for `Qwen3CachedModel`.

        Raises:
            KeyError: a weight is missing.
        """
        raise NotImplementedError("3.1.2 The model over a ragged batch")

    def __call__(self, chunks: list[Chunk], memory: Memory) -> mx.array:
        """Read the chunks, each behind what memory has of its request.

        Args:
            chunks: at least one, each with at least one token and of another request; memory has room for them.
            memory: has the first `start` tokens of each, and then those of the chunk, too.

        Returns:
            R x V, the logits after the last `scored` tokens of each chunk, in the order of the chunks; R is the sum of
            `scored`, and may be 0. In float32 they are those that each request gets alone, to rounding.

        Raises:
            ValueError: a chunk ends beyond the config's max_position_embeddings. Memory stays as it was.
        """
        raise NotImplementedError("3.1.2 The model over a ragged batch")


def turned(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """RoPE, T x H x D, where each token has the cosines and sines of its own position, T x 1 x D/2."""
    first, second = mx.split(x, 2, axis=-1)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1).astype(x.dtype)


def scored_rows(chunks: list[Chunk]) -> list[int]:
    """Which of all tokens a next one is asked for, as places in the row of all chunks."""
    rows: list[int] = []
    end = 0
    for chunk in chunks:
        end += len(chunk.tokens)
        rows += range(end - chunk.scored, end)
    return rows
