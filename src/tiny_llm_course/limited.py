"""Runs one of the course's modules in a child process, within limits of time and memory."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil

from .deaths import signal_words
from .paths import ROOT

TICK = 0.02  # seconds between two looks at the child
STEP = 1.0  # seconds that one look counts at most: a machine that slept did not compute


def run_limited(module: str, arguments: Sequence[str], seconds: float, memory: int) -> str:
    """Run `python -m tiny_llm_course.MODULE` with these arguments, everything that it prints thrown away.

    Returns:
        Nothing if it ended as it should, else why it did not, as a part of a sentence.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", f"tiny_llm_course.{module}", *arguments],
        cwd=ROOT,
        env={"PYTHONBREAKPOINT": "0", **os.environ},
        process_group=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    busy, last = 0.0, time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(TICK)
            now = time.monotonic()
            busy, last = busy + min(now - last, STEP), now
            if busy > seconds:
                return f"still running after {seconds:g} s"
            if resident(process.pid) > memory:
                return f"used more than {memory / (1 << 30):.3g} GB of memory"
        if process.returncode < 0:
            return f"the process crashed: {signal_words(-process.returncode)}"
        return "" if process.returncode == 0 else f"the process ended with exit code {process.returncode}"
    finally:
        # Its whole group: what it started goes with it. (macOS refuses for a group that has ended.)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def resident(pid: int) -> int:
    """The memory that a process holds, in bytes; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
