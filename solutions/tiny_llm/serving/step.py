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
    """What one step has done: it lets in, reads and writes, in this order.

    Let in is the next one of the queue, while a slot is free and memory begins it; in static mode only if nobody ran.
    Those that run stay in the order of their numbers. Read are the chunks of the plan, where memory reserves room for
    their tokens or, if it has none, `make_room` does. Of a request that was put back for that, nothing is read in this
    step. Written are the tokens that are chosen: each goes to the end of its request's output, up to one of `eos_ids`,
    which is no part of it, or one at which `stop` says that the text ends, or the last of `max_tokens`. Whoever has
    ended leaves at once, and says why in `finished`. The queue is charged a chunk's tokens. `read` counts those that
    were read, but not those at the end that were scored and not chosen: memory forgets them. A request may be cancelled
    in the middle of a step, by what `stop` does: it is left alone.
    """

    chunks: list[Chunk] = field(default_factory=list)  # what was read
    new: list[list[int]] = field(default_factory=list)  # of each chunk, the tokens that its text has gained
    admitted: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)  # but not those that were cancelled
