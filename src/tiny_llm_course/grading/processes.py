"""Child processes within limits of time and memory: one command, or a worker that grades; and all that they start."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from ..paths import ROOT
from .exits import signal_words

TICK = 0.02  # seconds between two looks at the child
STEP = 1.0  # seconds that one look counts at most: a machine that slept did not compute
LEAST_SHARE = 0.25  # of a second that counts, however many others the machine is busy with
FAMILY = 0.25  # seconds between two looks for what it has started, which goes through all processes of the machine
# Written where native code writes, before each check: what stands behind the last one belongs to that check.
CHECK_BEGINS = "\x1e"
# pytest grades by the course's own settings. Else a learner's pytest.ini or conftest.py would change the run, or break
# it, and so would a scratch file in the checkout's folder with the name of a library.
OWN_SETTINGS = ("-c", str(ROOT / "pyproject.toml"), "--noconftest", "-o", "pythonpath=")


class Cancelled(Exception):
    """Nobody waits for the verdict any more."""


class Stopwatch:
    """The seconds that a child has had: where a machine is busy with others, fewer than went by."""

    def __init__(self) -> None:
        self.busy = 0.0
        self._last = time.monotonic()

    def look(self) -> float:
        """The seconds until now."""
        now = time.monotonic()
        self.busy += min(now - self._last, STEP) * _share()
        self._last = now
        return self.busy


def _share() -> float:
    """Which part of a core each process gets, where more want one than there are."""
    return max(LEAST_SHARE, min(1.0, (os.cpu_count() or 1) / max(os.getloadavg()[0], 1.0)))


class Tree:
    """A child process in a process group of its own, and all that it has started, also in groups of their own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looked = 0.0
        self._members: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):  # it has ended already
            self._members.append(psutil.Process(pid))

    def resident(self) -> int:
        """The memory that all of them hold, in bytes; what two of them share counts twice."""
        if time.monotonic() - self._looked > FAMILY:
            self._look()
        return sum(_resident(process) for process in self._members)

    def end(self) -> None:
        """End them all."""
        self._look()
        # The whole group, with what was started too lately to be seen. (macOS refuses for a group that has ended.)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        for process in self._members:
            with contextlib.suppress(psutil.Error):  # which looks whether it is still the same one
                process.kill()

    def _look(self) -> None:
        """Find those that are new, and forget those that have ended; one whose parent has ended stays known."""
        found: dict[psutil.Process, None] = {}
        for process in self._members:
            if process.is_running() and process not in found:
                found[process] = None
                with contextlib.suppress(psutil.Error):
                    found |= dict.fromkeys(process.children(recursive=True))
        self._members = list(found)
        self._looked = time.monotonic()


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def run_limited(module: str, arguments: Sequence[str], seconds: float, memory: int) -> str:
    """Run `python -m tiny_llm_course.MODULE` with these arguments, everything that it prints thrown away.

    Returns:
        Nothing if it ended as it should, else why it did not, as a part of a sentence.
    """
    return run_command([sys.executable, "-m", f"tiny_llm_course.{module}", *arguments], seconds, memory)


def run_command(
    command: Sequence[str],
    seconds: float,
    memory: int,
    *,
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    output: int | IO[bytes] = subprocess.DEVNULL,
    cancelled: threading.Event | None = None,
) -> str:
    """Run a command in a folder; what it prints goes to `output`. Returns what `run_limited` does.

    Raises:
        Cancelled: `cancelled` was set meanwhile.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"PYTHONBREAKPOINT": "0", **os.environ, **(environment or {})},
        process_group=0,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    tree = Tree(process.pid)
    stopwatch = Stopwatch()
    try:
        while process.poll() is None:
            time.sleep(TICK)
            if cancelled and cancelled.is_set():
                raise Cancelled
            if stopwatch.look() > seconds:
                return f"still running after {seconds:g} s"
            if tree.resident() > memory:
                return f"used more than {memory / (1 << 30):.3g} GB of memory"
        if process.returncode < 0:
            return f"the process crashed: {signal_words(-process.returncode)}"
        return "" if process.returncode == 0 else f"the process ended with exit code {process.returncode}"
    finally:
        tree.end()
        process.wait()


class Worker:
    """A child process in a process group of its own; it ends by itself when its parent is gone before the job came."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        self.events, to_events = os.pipe()
        self.trace, to_trace = os.pipe()
        self._pipes = {"events": to_events, "trace": to_trace}
        self.process = subprocess.Popen(
            # -P: a scratch file of the learner's, random.py say, must not be taken for the library's.
            [sys.executable, "-P", "-m", "tiny_llm_course.grading.child"],
            cwd=ROOT,
            # Plugins of other packages in the environment take half a second to import, and grade nothing.
            env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONBREAKPOINT": "0", **os.environ, "PYTEST_ADDOPTS": ""},
            pass_fds=list(self._pipes.values()),
            process_group=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for pipe in self._pipes.values():
            os.close(pipe)
        self.tree = Tree(self.process.pid)

    def begin(self, **job: Any) -> None:
        """Hand it its job; if it has died meanwhile, whoever waits for its events will see that."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(json.dumps({**self._pipes, "secret": self.secret, **job}).encode())

    def end(self) -> None:
        """End it and all that it started, and leave nothing behind."""
        self.tree.end()
        self.process.wait()

    def dismiss(self) -> None:
        """End it although it never had a job."""
        self.end()
        os.close(self.events)
        os.close(self.trace)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
