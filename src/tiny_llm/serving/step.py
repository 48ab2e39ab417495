"""What a step is made of, and what it has done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from .memory import Memory
from .request import Chunk, Request

Model = Callable[[list[Chunk], Memory], mx.array]  # R x V, a row for each token that is asked for
Plan = Callable[[Sequence[Request], int], list[Chunk]]  # of those that run, the oldest first, and the budget
Choose = Callable[[mx.array, list[Chunk]], list[list[int]]]  # the new tokens of each chunk


@dataclass
class Step:
    """What one step has done."""

    chunks: list[Chunk] = field(default_factory=list)  # what was read
    new: list[list[int]] = field(default_factory=list)  # of each chunk, the tokens that its text has gained
    admitted: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)
