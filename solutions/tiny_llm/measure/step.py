"""A step of a model, how its numbers are stored, and the counts that describe it."""

import dataclasses

from ..config import ModelConfig


@dataclasses.dataclass(frozen=True)
class Step:
    """One call of a model with caches: many tokens per row in a prefill, one in a decode step."""

    config: ModelConfig
    length: int = 1  # L, new tokens in each row
    offset: int = 0  # tokens of each row already in the caches
    batch: int = 1  # N, rows


@dataclasses.dataclass(frozen=True)
class Storage:
    """How many bytes each number takes.

    In a quantized model every matrix is packed: attention projections, MLP, embedding and head. Each group of weights
    in a row then has a scale and a bias. Norms and the biases of projections (Qwen2.5) are never packed.
    """

    size: int = 4  # bytes per unpacked number: 4 in float32, 2 in float16 and bfloat16
    bits: int | None = None  # per packed weight; None if nothing is quantized
    group_size: int = 64  # weights per group; a row is a multiple of it
    scale_size: int = 4  # bytes of a scale, and of a group's bias


@dataclasses.dataclass(frozen=True)
class Traffic:
    """The bytes that a step moves."""

    weights: int
    cache_read: int
    cache_written: int

    @property
    def total(self) -> int:
        """The sum of all three."""
        return self.weights + self.cache_read + self.cache_written


@dataclasses.dataclass(frozen=True)
class Flops:
    """The floating-point operations of a step, two per multiply-add."""

    projections: int
    attention: int
    mlp: int
    head: int

    @property
    def total(self) -> int:
        """The sum of all four."""
        return self.projections + self.attention + self.mlp + self.head
