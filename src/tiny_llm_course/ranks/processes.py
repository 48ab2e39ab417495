"""The processes of a run's ranks: started together, watched, and ended together."""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

from . import records
from .environment import chosen, environments, on_cores_of, rank_file

TICK = 0.1  # seconds between two looks at what the ranks do
GRACE = 2.0  # seconds for a process to end by itself after SIGTERM
SETTLE = 1.0  # seconds for a rank to end whose end others have noticed already
KEPT = 2000  # characters of a rank's output that is shown at once
LAST_LINES = 5  # of a failed rank's errors, in the message of a run whose output is kept
LOST, RETRY = "connection to a peer was lost", "[ring] Socket"  # what MLX's ring says when another rank has ended
# The leader of the ranks' process group: when this process ends, even by SIGKILL, the pipe closes and all are killed.
GUARD = ["/bin/sh", "-c", "trap '' TERM INT; read line; kill -9 0"]


class RanksFailed(Exception):
    """A rank has died, or no rank makes progress; all have been ended. The message has what each of them did."""


class Ranks:
    """The ranks of a command, running on this machine; a context manager that ends them all when it is left.

        with Ranks(["python", "train.py"], 2) as ranks:
            ranks.wait()

    Rank r finds its number and the addresses of the others in its environment, so that `start()` of
    `tiny_llm.distributed.group`, or `mx.distributed.init`, connects it. Standard input is empty. The ranks are killed
    even if this process is killed.

    Args:
        command: the program of all ranks, with its arguments.
        ranks: how many.
        timeout: seconds without a call to a group by any rank, after which ranks that wait are ended; None for no
            limit, as a server needs, whose ranks wait for requests.
        environment: variables beside those of this process.
        backend: `ring`, `mpi` (started by mpirun), or `any`, which is the ring.
        keep: whether `outputs` and `errors` keep what ranks print. Otherwise rank 0 prints as if it were alone, and
            each line of rank 1 begins with `rank 1: `.

    Raises:
        UsageError: the backend is mpi, and there is no mpirun.
    """

    def __init__(
        self,
        command: Sequence[str],
        ranks: int,
        *,
        timeout: float | None = 60.0,
        environment: Mapping[str, str] | None = None,
        backend: str = "ring",
        keep: bool = False,
    ) -> None:
        self.command, self.size, self.timeout, self.keep = list(command), ranks, timeout, keep
        self.outputs = [""] * ranks  # by rank, if kept; of mpirun, all are in the first
        self.errors = [""] * ranks
        self.processes: list[subprocess.Popen[bytes]] = []
        self._backend, self._more = chosen(backend), environment
        self._ended: queue.Queue[int] = queue.Queue()  # ranks, in the order in which they ended
        self._printing = threading.Lock()
        self._pumps: list[list[threading.Thread]] = [[] for _ in range(ranks)]
        self._stack = ExitStack()

    def __enter__(self) -> "Ranks":
        """Start all ranks."""
        with ExitStack() as starting:
            self.folder = Path(starting.enter_context(tempfile.TemporaryDirectory(prefix="tiny-llm-ranks-")))
            self._files = [rank_file(self.folder, rank) for rank in range(self.size)]
            self._guard = subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=0)
            starting.callback(self.end)
            each = environments(self.size, self.folder, self._backend, self._more)
            if self._backend == "mpi":
                self._start(_mpirun(self.command, each), {})
            else:
                for rank, environment in enumerate(each):
                    with on_cores_of(rank, self.size):
                        self._start(self.command, environment)
            self._changed, self._seen = time.monotonic(), [0] * self.size
            self._stack = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End all ranks that still run."""
        self._stack.close()

    def wait(self) -> None:
        """Return when all ranks have ended with status 0.

        Raises:
            RanksFailed: one has ended otherwise, or they hang; all have been ended.
        """
        running = len(self.processes)
        while running:
            try:
                rank = self._ended.get(timeout=TICK)
            except queue.Empty:
                self._look()
                continue
            running -= 1
            if self.processes[rank].returncode:
                self._fail_of(self._first_to_fail(rank))
        for pump in chain(*self._pumps):
            pump.join()

    def end(self) -> None:
        """End all ranks and what they have started: SIGTERM, and 2 seconds later SIGKILL."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guard.pid, signal.SIGTERM)
        end = time.monotonic() + GRACE
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guard.pid, signal.SIGKILL)
        for process in (*self.processes, self._guard):
            process.wait()
        if self._guard.stdin:
            self._guard.stdin.close()
        for pump in chain(*self._pumps):
            pump.join(GRACE)  # a process that left the group may keep the pipe open

    def _start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        rank = len(self.processes)
        # On a terminal, rank 0 has it, with its colors; elsewhere its lines are kept whole among those of the others.
        own = rank == 0 and not self.keep and sys.stdout.isatty()
        pipe = None if own else subprocess.PIPE
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            process_group=self._guard.pid,
        )
        self.processes.append(process)
        threading.Thread(target=self._await, args=(rank,), daemon=True).start()
        streams = (process.stdout, self.outputs, sys.stdout), (process.stderr, self.errors, sys.stderr)
        for lines, kept, shown in streams:
            if lines:
                pump = threading.Thread(target=self._pump, args=(lines, rank, kept, shown), daemon=True)
                self._pumps[rank].append(pump)
                pump.start()

    def _await(self, rank: int) -> None:
        self.processes[rank].wait()
        self._ended.put(rank)

    def _pump(self, lines: IO[bytes], rank: int, kept: list[str], shown: IO[str]) -> None:
        with lines:
            for line in lines:
                text = line.decode(errors="replace")
                if text.startswith(RETRY):
                    continue
                kept[rank] = (kept[rank] + text)[-KEPT if not self.keep else 0 :]
                if self.keep:
                    continue
                with self._printing, suppress(OSError, ValueError):  # its reader has gone
                    shown.write(f"rank {rank}: {text}" if rank else text)
                    shown.flush()

    def _look(self) -> None:
        """Raise RanksFailed if ranks have waited for each other for `timeout` seconds."""
        seen, now = [file.stat().st_mtime_ns for file in self._files], time.monotonic()
        if seen != self._seen:
            self._seen, self._changed = seen, now
        if self.timeout is None or now - self._changed < self.timeout:
            return
        running = [rank for rank in range(self.size) if self._status(rank) is None]
        if any(records.waits(records.read(self._files[rank])) for rank in running):
            what = f"The ranks hang: none has made a call for {self.timeout:g} s. They have been stopped:"
            self._fail(what, range(self.size))

    def _first_to_fail(self, rank: int) -> int:
        """Return the rank to name if this one has failed: it may have ended only because another one did."""
        failed, deadline = [rank], time.monotonic() + SETTLE
        while self._lost_another(failed[-1]) and (left := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                ended = self._ended.get(timeout=left)
                failed += [ended] * bool(self.processes[ended].returncode)
        return failed[0] if self._lost_another(failed[-1]) else failed[-1]

    def _lost_another(self, rank: int) -> bool:
        process = self.processes[rank]
        if process.returncode < 0:
            return False
        if process.stderr is None:  # it writes to the terminal
            return records.waits(records.read(self._files[rank]))
        self._pumps[rank][-1].join(GRACE)
        return LOST in self.errors[rank]

    def _fail_of(self, rank: int) -> NoReturn:
        status = self.processes[rank].returncode
        try:
            how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
        except ValueError:
            how = f"was ended by signal {-status}"
        if self._backend == "mpi":
            self._fail(f"mpirun {how}. The ranks have been stopped:", range(self.size))
        what = f"Rank {rank} of {self.size} {how}: it {records.in_words(records.read(self._files[rank]))}."
        last = []
        if self.keep:
            self._pumps[rank][-1].join(GRACE)
            last = [f"    {line}" for line in self.errors[rank].splitlines()[-LAST_LINES:]]
        others = [other for other in range(self.size) if other != rank]
        more = [f"The last lines of rank {rank}:", *last] if last else []
        self._fail(f"{what}{' The other ranks have been stopped:' * bool(others)}", others, more)

    def _fail(self, what: str, ranks: Sequence[int], more: Sequence[str] = ()) -> NoReturn:
        """End all ranks, and raise RanksFailed with what each of these did, and more lines."""
        status = {rank: self._status(rank) for rank in ranks}
        running = [rank for rank in ranks if status[rank] is None]
        # A record of a call has its place; asking the others takes time, in which ranks notice that one has ended.
        asked = [rank for rank in running if not records.read(self._files[rank]).startswith("in ")]
        asked = [] if self._backend == "mpi" else asked
        found = records.places([self._files[rank] for rank in asked], [self.processes[rank].pid for rank in asked])
        places = dict(zip(asked, found, strict=True))
        lines = [what]
        for rank in ranks:
            doing = records.in_words(records.read(self._files[rank]), places.get(rank, ""), status[rank])
            lines.append(f"    rank {rank} {doing}")
        self.end()
        raise RanksFailed("\n".join([*lines, *more]))

    def _status(self, rank: int) -> int | None:
        return None if self._backend == "mpi" else self.processes[rank].poll()


def _mpirun(command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a command of mpirun that starts one process for each environment."""
    parts: list[str] = []
    for environment in environments:
        settings = [f"{name}={value}" for name, value in environment.items()]
        parts += [":"] * bool(parts) + ["-n", "1", "env", *settings, *command]
    return ["mpirun", "--oversubscribe", *parts]
