"""A group of ranks, on `mx.distributed`: checked arguments, and a record of every call for the message of a hang."""

import faulthandler
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import mlx.core as mx

RANK_FILE = "TINY_LLM_RANK_FILE"  # `dist` sets it: the file in which a rank keeps what it waits for
RECORD = 240  # bytes of that file, so that each record overwrites the one before
KEPT_CALLS = 4096


class Transport(Protocol):
    """Moves arrays between ranks."""

    rank: int
    size: int

    def send(self, x: mx.array, to: int) -> None: ...  # noqa: D102
    def receive(self, shape: tuple[int, ...], dtype: mx.Dtype, source: int) -> mx.array: ...  # noqa: D102
    def all_sum(self, x: mx.array) -> mx.array: ...  # noqa: D102
    def all_max(self, x: mx.array) -> mx.array: ...  # noqa: D102
    def all_gather(self, x: mx.array) -> mx.array: ...  # noqa: D102


class Call(NamedTuple):
    """A call of a rank."""

    name: str  # of the method
    shape: tuple[int, ...]
    dtype: mx.Dtype
    peer: int | None  # the other rank, or None for a collective, which all ranks call
    place: str  # the caller's file and line

    def __str__(self) -> str:
        to = "" if self.peer is None else f" {'to' if self.name == 'send' else 'from'} rank {self.peer}"
        size = " x ".join(map(str, self.shape)) or "one number"
        return f"{self.name}{to} ({size}, {str(self.dtype).rpartition('.')[2]}) at {self.place}"


class Group:
    """The ranks of a run, from 0 to `size` - 1, seen from one of them.

    `send` may block until the other rank receives, and `receive` blocks until it sends. A collective is complete when
    all ranks have called it, with equal shapes and dtypes. So all ranks must make matching calls in the same order.
    """

    def __init__(self, transport: Transport) -> None:
        """Keep the transport; `calls` has this rank's calls, the newest last."""
        self.rank, self.size = transport.rank, transport.size
        self.calls: deque[Call] = deque(maxlen=KEPT_CALLS)
        self._transport = transport
        file = os.environ.get(RANK_FILE)
        self._file = os.open(file, os.O_WRONLY) if file else None
        if file:  # `dist` sends SIGUSR1 to ranks that hang; each then writes where it is
            faulthandler.register(signal.SIGUSR1, os.open(f"{file}.stack", os.O_WRONLY | os.O_CREAT))

    @property
    def left(self) -> int:
        """The rank before this one on the ring: `size` - 1 for rank 0."""
        return (self.rank - 1) % self.size

    @property
    def right(self) -> int:
        """The rank after this one on the ring: 0 for the last one."""
        return (self.rank + 1) % self.size

    def send(self, x: mx.array, to: int) -> None:
        """Send an array to another rank.

        Raises:
            ValueError: there is no such rank, or it is this one.
        """
        self._called("send", x.shape, x.dtype, to)
        self._transport.send(x, to)
        self._record("computing, after " + str(self.calls[-1]))

    def receive(self, shape: tuple[int, ...], dtype: mx.Dtype, source: int) -> mx.array:
        """Return the array of this shape and dtype that another rank sends.

        Raises:
            ValueError: there is no such rank, or it is this one.
        """
        self._called("receive", shape, dtype, source)
        return self._finished(self._transport.receive(shape, dtype, source))

    def all_sum(self, x: mx.array) -> mx.array:
        """Return the sum of all ranks' arrays, on every rank."""
        return self._collective(self._transport.all_sum, x)

    def all_max(self, x: mx.array) -> mx.array:
        """Return the elementwise maximum of all ranks' arrays, on every rank."""
        return self._collective(self._transport.all_max, x)

    def all_gather(self, x: mx.array) -> mx.array:
        """Return all ranks' arrays, N.., concatenated by rank along the first axis: size * N.., on every rank."""
        return self._collective(self._transport.all_gather, x)

    def _collective(self, run: Callable[[mx.array], mx.array], x: mx.array) -> mx.array:
        self._called(run.__name__, x.shape, x.dtype, None)
        return self._finished(run(x))

    def _finished(self, x: mx.array) -> mx.array:
        self._record("computing, after " + str(self.calls[-1]))
        return x

    def _called(self, name: str, shape: tuple[int, ...], dtype: mx.Dtype, peer: int | None) -> None:
        if peer is not None and (peer == self.rank or not 0 <= peer < self.size):
            raise ValueError(f"rank {self.rank} of {self.size} cannot {name} with rank {peer}: expected another rank")
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        self.calls.append(Call(name, shape, dtype, peer, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"))
        self._record("in " + str(self.calls[-1]))

    def _record(self, what: str) -> None:
        if self._file is not None:
            os.pwrite(self._file, what.encode()[:RECORD].ljust(RECORD), 0)


class MLXTransport:
    """`mx.distributed`: the ring and MPI on CPUs, JACCL on Macs, NCCL on NVIDIA's GPUs.

    The ring sends to its two neighbors only. `send` and `receive` are evaluated at once; collectives are lazy like all
    of MLX's operators, so that they become part of a larger graph.
    """

    def __init__(self, backend: str = "any") -> None:
        """Join the group that the environment describes, alone if it describes none.

        Raises:
            RuntimeError: the backend is not available, or the others cannot be reached.
        """
        self.group = mx.distributed.init(strict=backend != "any", backend=backend)
        self.rank, self.size = self.group.rank(), self.group.size()

    def send(self, x: mx.array, to: int) -> None:
        """Send."""
        mx.eval(mx.distributed.send(x, to, group=self.group))

    def receive(self, shape: tuple[int, ...], dtype: mx.Dtype, source: int) -> mx.array:
        """Receive."""
        x = mx.distributed.recv(shape, dtype, source, group=self.group)
        mx.eval(x)
        return x

    def all_sum(self, x: mx.array) -> mx.array:
        """Sum."""
        return mx.distributed.all_sum(x, group=self.group)

    def all_max(self, x: mx.array) -> mx.array:
        """Take the maximum."""
        return mx.distributed.all_max(x, group=self.group)

    def all_gather(self, x: mx.array) -> mx.array:
        """Concatenate."""
        return mx.distributed.all_gather(x, group=self.group)


def start(backend: str = "any") -> Group:
    """Return the group of this process, which `pdm run dist` has started; a group of one without it."""
    return Group(MLXTransport(backend))
