"""Simulated ranks: the ranks of a program take turns in one process, so that a deadlock is found at once and named.

Each rank is a greenlet with a `Group` of the solution, whose transport is simulated here. A rank runs until it waits
for another. `send` waits until the other rank receives, which is the strictest behavior that a transport may have. As
on the ring of MLX, `send` and `receive` reach the two neighbors only, unless the check says otherwise.
"""

import re
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import greenlet
import mlx.core as mx

from ..programs.packages import SOLUTION_NAME, load_solution

# What a rank waits with: the collective's name, or the two ranks of a message.
COLLECTIVES: dict[str, Callable[[list[mx.array]], mx.array]] = {
    "all_sum": lambda arrays: mx.sum(mx.stack(arrays), axis=0),
    "all_max": lambda arrays: mx.max(mx.stack(arrays), axis=0),
    "all_gather": mx.concatenate,
}


class RanksStopped(Exception):
    """The ranks cannot continue: a deadlock, or calls that do not match. The message has each rank's last call.

    `about`, by which errors are compared, has no places in the learner's file.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.about = re.sub(r" at [^ ;]+:[0-9]+", "", message)


class _Rank:
    """A rank's transport: what it waits for, and with what."""

    def __init__(self, ranks: "_Ranks", rank: int) -> None:
        self.ranks, self.rank, self.size = ranks, rank, ranks.size
        self.waits: tuple[str, int | None] | None = None  # the call's name and the other rank
        self.given: Any = None  # the array that it sends, or the shape and dtype that it expects
        self.answer: mx.array | None = None
        self.result: Any = None

    def send(self, x: mx.array, to: int) -> None:
        self._wait("send", to, x)

    def receive(self, shape: tuple[int, ...], dtype: mx.Dtype, source: int) -> Any:
        return self._wait("receive", source, (tuple(shape), dtype))

    def all_sum(self, x: mx.array) -> Any:
        return self._wait("all_sum", None, x)

    def all_max(self, x: mx.array) -> Any:
        return self._wait("all_max", None, x)

    def all_gather(self, x: mx.array) -> Any:
        return self._wait("all_gather", None, x)

    def _wait(self, name: str, peer: int | None, given: Any) -> Any:
        if name in self.ranks.forbidden:
            raise RanksStopped(f"rank {self.rank} calls {name}, which this task does without")
        if peer is not None and self.ranks.ring and (peer - self.rank) % self.size not in (1, self.size - 1):
            raise RanksStopped(
                f"rank {self.rank} of {self.size} calls {name} with rank {peer}: the ring reaches neighbors"
            )
        self.waits, self.given = (name, peer), given
        self.ranks.main.switch()
        return self.answer


class _Ranks:
    """All ranks, run in turns until each has returned."""

    def __init__(self, size: int, forbidden: Sequence[str], ring: bool) -> None:
        self.size, self.forbidden, self.ring = size, forbidden, ring
        self.main = greenlet.getcurrent()
        self.ranks = [_Rank(self, rank) for rank in range(size)]
        load_solution()
        group = import_module(f"{SOLUTION_NAME}.distributed.group").Group
        self.groups = [group(rank) for rank in self.ranks]

    def run(self, program: Callable[..., Any]) -> None:
        """Run the program on each rank's group; raise what a rank raises first."""

        def start(rank: _Rank) -> None:
            rank.result = program(self.groups[rank.rank])

        greenlets = [greenlet.greenlet(start) for _ in self.ranks]
        ready = deque(self.ranks)
        try:
            while True:
                while ready:
                    rank = ready.popleft()
                    rank.waits = None
                    greenlets[rank.rank].switch(*(() if greenlets[rank.rank] else (rank,)))
                waiting = [rank for rank in self.ranks if not greenlets[rank.rank].dead]
                if not waiting:
                    return
                ready.extend(self._served(waiting))
                if not ready:
                    raise RanksStopped(self._said(greenlets))
        finally:
            for each in greenlets:
                if each:
                    each.throw()  # GreenletExit, so that its blocks are left

    def _served(self, waiting: list[_Rank]) -> list[_Rank]:
        """Move what can be moved, and return the ranks that can go on."""
        for rank in waiting:
            assert rank.waits
            name, peer = rank.waits
            if name != "send" or peer is None:
                continue
            other = self.ranks[peer]
            if other in waiting and other.waits == ("receive", rank.rank):
                if other.given != (rank.given.shape, rank.given.dtype):
                    continue
                other.answer = rank.given + 0
                rank.answer = None
                return [rank, other]
        names = {rank.waits for rank in self.ranks}
        if len(waiting) == self.size and len(names) == 1 and (found := names.pop()) and found[1] is None:
            if len({(rank.given.shape, rank.given.dtype) for rank in self.ranks}) > 1:
                return []
            total = COLLECTIVES[found[0]]([rank.given for rank in self.ranks])
            for rank in self.ranks:
                rank.answer = total + 0
            return self.ranks
        return []

    def _said(self, greenlets: list[greenlet.greenlet]) -> str:
        said = []
        for rank, group in zip(self.ranks, self.groups, strict=True):
            last = str(group.calls[-1]) if group.calls else "no call"
            said.append(f"rank {rank.rank} {'has returned' if greenlets[rank.rank].dead else 'waits in ' + last}")
        return "the ranks wait for each other: " + "; ".join(said)


def run_ranks(
    program: Callable[[Any], Any], size: int, *, forbidden: Sequence[str] = (), ring: bool = True
) -> tuple[list[Any], list[Any]]:
    """Run a program on each of `size` simulated ranks, and return their results and their groups, by rank.

    Args:
        program: gets the rank's group. What it raises on any rank is raised here.
        forbidden: methods of the group that the task does without.
        ring: whether ranks reach their two neighbors only.

    Raises:
        RanksStopped: all ranks wait; the message has the last call of each.
    """
    ranks = _Ranks(size, forbidden, ring)
    ranks.run(program)
    return [rank.result for rank in ranks.ranks], ranks.groups
