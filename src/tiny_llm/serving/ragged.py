"""The model over a ragged batch: the tokens of all requests in one row, with no padding.

Everything but attention processes each token independently. So each matrix is read from memory once, for the tokens of
all requests.
"""

import mlx.core as mx

from ..config import ModelConfig
from ..layer_norm import RMSNorm
from ..positional_encoding import rotation_angles
from ..qwen3_cached.decoder import Decoder
from ..qwen3_cached.parts import DENSE, Dense
from .kv_cache import KVCacheManager
from .request import Chunk


class RaggedModel(Decoder):
    """Maps chunks of many requests to the logits of their next tokens."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense = DENSE) -> None:
        """Build the layers.

        Args:
            config: of the model.
            weights: by their names in a checkpoint, as for `Qwen3Model`.
            parts: builds all matrices from the weights, as for `Qwen3CachedModel`.

        Raises:
            KeyError: a weight is missing.
        """
        raise NotImplementedError("3.1.2 The model over a ragged batch")

    def __call__(self, chunks: list[Chunk], kv_cache: KVCacheManager) -> mx.array:
        """Run one forward pass over the chunks, appending to each request's KV cache.

        Args:
            chunks: at least one, each with at least one token and of another request; their slots are reserved.
            kv_cache: holds the first `start` tokens of each request, and afterwards those of the chunk as well.

        Returns:
            R x V, the logits after the last `num_logits` tokens of each chunk, in the order of the chunks; R is the
            sum of `num_logits`, and may be 0. The logits of other tokens are not computed, except one row if R is 0.
            In float32, a request's logits do not depend on what else is in the batch, up to rounding.

        Raises:
            ValueError: a chunk ends beyond the config's max_position_embeddings; the message gives both numbers. The
                cache has not changed.
        """
        raise NotImplementedError("3.1.2 The model over a ragged batch")


def apply_rope(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Return x, T x H x D, rotated by RoPE with each token's own cosines and sines, T x 1 x D/2."""
    first, second = mx.split(x, 2, axis=-1)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1).astype(x.dtype)


def logit_rows(chunks: list[Chunk]) -> list[int]:
    """Return the indices of the tokens whose logits are wanted, within the tokens of all chunks."""
    rows: list[int] = []
    end = 0
    for chunk in chunks:
        end += len(chunk.tokens)
        rows += range(end - chunk.num_logits, end)
    return rows
