"""What a stage of a pipeline does in a training step, and when: passes, GPipe's order, and a simulation. Given."""

from collections.abc import Sequence
from typing import NamedTuple


class Pass(NamedTuple):
    """The forward or the backward pass of one micro-batch through one stage."""

    forward: bool
    micro_batch: int  # from 0

    def __str__(self) -> str:
        return f"{'F' if self.forward else 'B'}{self.micro_batch}"


def gpipe(rank: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return GPipe's order, which is the same on all stages: all forward passes, then all backward passes."""
    return [Pass(forward, m) for forward in (True, False) for m in range(micro_batches)]


class Slot(NamedTuple):
    """A pass with its time."""

    what: Pass
    start: float
    end: float


class Timeline(NamedTuple):
    """A simulated training step."""

    stages: list[list[Slot]]  # by rank, the passes in order
    held: list[int]  # by rank, the largest number of micro-batches between their forward and their backward pass

    @property
    def length(self) -> float:
        """Return the time from the first pass to the end of the last one."""
        return max(slot.end for slots in self.stages for slot in slots)

    @property
    def bubble(self) -> float:
        """Return the share of all stages' time in which they compute nothing."""
        busy = sum(slot.end - slot.start for slots in self.stages for slot in slots)
        return 1 - busy / (self.length * len(self.stages))


def simulate(orders: Sequence[Sequence[Pass]], times: Sequence[tuple[float, float]] | None = None) -> Timeline:
    """Return when each pass runs if it starts as soon as its stage is free and its input is there.

    A forward pass needs that of the stage before, a backward pass that of the stage after, and on the last stage its
    own forward pass. Communication takes no time.

    Args:
        orders: each stage's passes, by rank.
        times: for each stage, the time of a forward and of a backward pass; None for 1 and 2.

    Raises:
        ValueError: the stages wait for each other. The message names the pass that each stage waits for.
    """
    stages, ends = len(orders), dict[tuple[int, Pass], float]()
    slots: list[list[Slot]] = [[] for _ in orders]
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while len(slots[rank]) < len(order):
                what = order[len(slots[rank])]
                if what.forward:
                    needed = (rank - 1, what) if rank else None
                else:
                    needed = (rank + 1, what) if rank + 1 < stages else (rank, Pass(True, what.micro_batch))
                if needed is not None and needed not in ends:
                    break
                free = slots[rank][-1].end if slots[rank] else 0.0
                start = max(free, ends[needed] if needed else 0.0)
                end = start + (times[rank] if times else (1.0, 2.0))[0 if what.forward else 1]
                ends[rank, what] = end
                slots[rank].append(Slot(what, start, end))
                moved = True
    if stuck := [(r, order[len(slots[r])]) for r, order in enumerate(orders) if len(slots[r]) < len(order)]:
        waiting = ", ".join(f"rank {rank} with {what}" for rank, what in stuck)
        raise ValueError(f"the stages wait for each other: {waiting}")
    return Timeline(slots, [most_held(order) for order in orders])


def most_held(order: Sequence[Pass]) -> int:
    """Return the largest number of micro-batches that are between their forward and their backward pass."""
    held = most = 0
    for what in order:
        held += 1 if what.forward else -1
        most = max(most, held)
    return most
