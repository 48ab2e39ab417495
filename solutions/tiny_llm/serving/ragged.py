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


class _RaggedAttention:
    """Computes what `Qwen3CachedAttention` does, for tokens that each have their own position."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense, number: int) -> None:
        qwen3, eps = config.model_type == "qwen3", config.rms_norm_eps
        self.number, self.head_dim = number, config.head_dim
        self.projections = [parts.projection(weights, f"self_attn.{x}_proj", bias=not qwen3) for x in "qkv"]
        self.q_norm, self.k_norm = (
            RMSNorm(config.head_dim, weights[f"self_attn.{x}_norm.weight"], eps) if qwen3 else None for x in "qk"
        )
        self.output = parts.projection(weights, "self_attn.o_proj")

    def __call__(
        self, x: mx.array, cos: mx.array, sin: mx.array, kv_cache: KVCacheManager, chunks: list[Chunk]
    ) -> mx.array:
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = apply_rope(query, cos, sin), apply_rope(key, cos, sin)  # T x H x D, T x H_kv x D
        attended = kv_cache.attend(self.number, query, key, value, chunks)  # T x H x D
        return self.output(attended.flatten(1))


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
        super().__init__(config, weights, parts, lambda number, own: _RaggedAttention(config, own, parts, number))
        self.longest = config.max_position_embeddings
        self.angles = rotation_angles(config.head_dim, self.longest, config.rope_theta)  # positions x D/2

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
        if (end := max(chunk.end for chunk in chunks)) > self.longest:
            raise ValueError(f"a request has {end} tokens, but the model takes at most {self.longest}")
        tokens = mx.array([token for chunk in chunks for token in chunk.tokens])
        positions = mx.array([position for chunk in chunks for position in range(chunk.start, chunk.end)])
        angles = self.angles[positions][:, None]  # T x 1 x D/2
        cos, sin = mx.cos(angles), mx.sin(angles)
        x = self.embedding(tokens)  # T x E
        for layer in self.layers:
            x = layer(x, cos, sin, kv_cache, chunks)
        rows = logit_rows(chunks)
        # Some matrix products reject an input without rows: then compute the logits of one row, and return none.
        return self.head(self.norm(x[mx.array(rows or [0])]))[: len(rows)]


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
