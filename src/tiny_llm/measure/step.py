"""A step of a model, how its numbers are stored, and what is counted of it."""

import dataclasses

from ..config import ModelConfig


@dataclasses.dataclass(frozen=True)
class Step:
    """One call of a model with caches. A prefill reads many tokens, a decode step one in each row."""

    config: ModelConfig
    length: int = 1  # L, new tokens in each row
    offset: int = 0  # tokens of each row that the caches hold before
    batch: int = 1  # N, rows


@dataclasses.dataclass(frozen=True)
class Storage:
    """How many bytes numbers take.

    Of a quantized model each matrix is packed: the projections, those of the MLP, embedding and head. Each group of
    weights in a row then has a scale and a bias. Norms, and the biases of projections (Qwen2.5), are never packed.
    """

    size: int = 4  # bytes of a number that is not packed: 4 in float32, 2 in float16 and bfloat16
    bits: int | None = None  # of a packed weight; None if nothing is quantized
    group_size: int = 64  # weights of a group; a matrix has a multiple of them in each row
    scale_size: int = 4  # bytes of a scale, and of a group's bias


@dataclasses.dataclass(frozen=True)
class Traffic:
    """The bytes that a step moves."""

    weights: int
    cache_read: int
    cache_written: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.cache_read + self.cache_written


@dataclasses.dataclass(frozen=True)
class Flops:
    """The floating-point operations of a step: a multiplication with its addition is two."""

    projections: int
    attention: int
    mlp: int
    head: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.projections + self.attention + self.mlp + self.head
