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


class _RaggedAttention:
    """What `Qwen3CachedAttention` computes, of tokens that stand at positions of their own."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], parts: Dense, number: int) -> None:
        qwen3, eps = config.model_type == "qwen3", config.rms_norm_eps
        self.number, self.head_dim = number, config.head_dim
        self.projections = [parts.projection(weights, f"self_attn.{x}_proj", bias=not qwen3) for x in "qkv"]
        self.q_norm, self.k_norm = (
            RMSNorm(config.head_dim, weights[f"self_attn.{x}_norm.weight"], eps) if qwen3 else None for x in "qk"
        )
        self.output = parts.projection(weights, "self_attn.o_proj")

    def __call__(self, x: mx.array, cos: mx.array, sin: mx.array, memory: Memory, chunks: list[Chunk]) -> mx.array:
        query, key, value = (mx.unflatten(project(x), -1, (-1, self.head_dim)) for project in self.projections)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = turned(query, cos, sin), turned(key, cos, sin)  # T x H x D, T x H_kv x D
        attended = memory.attend(self.number, query, key, value, chunks)  # T x H x D
        return self.output(attended.flatten(1))


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
        super().__init__(config, weights, parts, lambda number, own: _RaggedAttention(config, own, parts, number))
        self.longest = config.max_position_embeddings
        self.angles = rotation_angles(config.head_dim, self.longest, config.rope_theta)  # positions x D/2

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
        if (end := max(chunk.end for chunk in chunks)) > self.longest:
            raise ValueError(f"a request has {end} tokens, but the model takes at most {self.longest}")
        tokens = mx.array([token for chunk in chunks for token in chunk.tokens])
        positions = mx.array([position for chunk in chunks for position in range(chunk.start, chunk.end)])
        angles = self.angles[positions][:, None]  # T x 1 x D/2
        cos, sin = mx.cos(angles), mx.sin(angles)
        x = self.embedding(tokens)  # T x E
        for layer in self.layers:
            x = layer(x, cos, sin, memory, chunks)
        rows = scored_rows(chunks)
        # Some products refuse to have no rows: where nobody asks, one is scored, and not given.
        return self.head(self.norm(x[mx.array(rows or [0])]))[: len(rows)]


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
