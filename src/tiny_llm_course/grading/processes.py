"""Child processes, with all that they start, within limits of time and memory: a command, or a worker that grades."""

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

TICK = 0.02  # seconds between two polls of the child
STEP = 1.0  # seconds counted for one poll at most: a machine that slept did not compute
LEAST_SHARE = 0.25  # of a second that counts, however busy the machine is
FAMILY = 0.25  # seconds between two scans for child processes, which go through all processes of the machine
# Written to stdout before each check: native code's output after the last one belongs to that check.
CHECK_BEGINS = "\x1e"
# The course's own settings only: a learner's pytest.ini or conftest.py, or a scratch file with a library's name in the
# checkout, would change or break the run.
OWN_SETTINGS = ("-c", str(ROOT / "pyproject.toml"), "--noconftest", "-o", "pythonpath=")


class Cancelled(Exception):
    """The verdict is no longer needed."""


class Stopwatch:
    """Measure a child's seconds: fewer than the wall clock's where the machine is busy with other processes."""

    def __init__(self) -> None:
        self.busy = 0.0
        self._last = time.monotonic()

    def look(self) -> float:
        """Return the seconds until now."""
        now = time.monotonic()
        share = (os.cpu_count() or 1) / max(os.getloadavg()[0], 1.0)  # of a core, for each process that wants one
        self.busy += min(now - self._last, STEP) * max(LEAST_SHARE, min(1.0, share))
        self._last = now
        return self.busy


class Tree:
    """A child process in its own process group, and all that it has started, including other groups."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looked = 0.0
        self._members: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):  # it has ended already
            self._members.append(psutil.Process(pid))
        self._guard: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            # It ends the group when this process has ended, even by SIGKILL, as that closes the pipe.
            command, null = ["/bin/sh", "-c", "read line; kill -9 0"], subprocess.DEVNULL
            self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, process_group=pid)

    def resident(self) -> int:
        """Return the resident memory of them all, in bytes; shared memory counts more than once."""
        if time.monotonic() - self._looked > FAMILY:
            self._look()
        count = 0
        for process in self._members:
            with contextlib.suppress(psutil.Error):
                count += process.memory_info().rss
        return count

    def end(self) -> None:
        """End them all."""
        self._look()
        # The whole group, with what was started after the scan. (macOS refuses for a group that has ended.)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        for process in self._members:
            with contextlib.suppress(psutil.Error):  # psutil checks that the pid was not reused
                process.kill()
        if self._guard:
            self._guard.kill()
            self._guard.communicate()

    def _look(self) -> None:
        """Find new processes and drop those that have ended; one whose parent has ended stays known."""
        found: dict[psutil.Process, None] = {}
        for process in self._members:
            if process.is_running() and process not in found:
                found[process] = None
                with contextlib.suppress(psutil.Error):
                    found |= dict.fromkeys(process.children(recursive=True))
        self._members = list(found)
        self._looked = time.monotonic()


def run_limited(module: str, arguments: Sequence[str], seconds: float, memory: int) -> str:
    """Run `python -m tiny_llm_course.MODULE` with its output discarded; return why it failed, in words, or ""."""
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
    """Run a command; return why it failed, in words, or "". Raise Cancelled if `cancelled` is set meanwhile."""
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
    """A child process in its own process group; it ends if its parent ends before the job arrives."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        self.events, to_events = os.pipe()
        self.trace, to_trace = os.pipe()
        self._pipes = {"events": to_events, "trace": to_trace}
        self.process = subprocess.Popen(
            # -P: a learner's scratch file such as random.py must not shadow the library's.
            [sys.executable, "-P", "-m", "tiny_llm_course.grading.child"],
            cwd=ROOT,
            # No plugins of other packages: they take half a second to import.
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
        """Send the job; if the process has died, the reader of its events will notice."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(json.dumps({**self._pipes, "secret": self.secret, **job}).encode())

    def end(self) -> None:
        """End it and all that it started."""
        self.tree.end()
        self.process.wait()

    def dismiss(self) -> None:
        """End it before it had a job."""
        self.end()
        os.close(self.events)
        os.close(self.trace)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
