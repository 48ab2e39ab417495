"""Run one command with limits: on time, memory, output, the environment, and every process that it leaves running."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .limits import ClippedOutput, Finished, Limits, memory_of_group

LAUNCHER = Path(__file__).with_name("launcher.py")
LOOK_EVERY = 0.25  # seconds between two looks at the memory
NO_LIMITS = Limits()


def run_limited(command: Sequence[str], folder: int, limits: Limits = NO_LIMITS, keep: Sequence[str] = ()) -> Finished:
    """Run a command, without a shell, until it ends or passes a limit, and kill what is left of it.

    The command is started by LAUNCHER, `[sys.executable, "-I", "-S", LAUNCHER, folder, cpu_seconds, memory_mib,
    *command]`, which sets the limits that the system enforces. It runs in a session, and so a process group, of its
    own. The standard input is empty; standard output and standard error are one pipe; of our descriptors, it gets
    `folder` alone. Its environment has PATH from ours, HOME and TMPDIR, both a new folder that is deleted at the end,
    LANG=C.UTF-8, TERM=dumb, and those variables named in `keep` that exist.

    When the command itself has ended, every process in its group is killed, so that nothing runs on and a background
    process that holds the pipe is not waited for. The same happens when a limit is passed, or when this function is
    interrupted. A process that moves to a session of its own escapes: that needs a sandbox of the operating system.

    Args:
        command: the program and its arguments.
        folder: descriptor of the working folder.
        limits: `memory_of_group` is called every LOOK_EVERY seconds. Output that is over the limit is read and dropped,
            as `ClippedOutput` does; the memory that this function needs does not grow with it.
        keep: names of further variables.

    Returns:
        `code` as `subprocess` has it, 127 if the program cannot be run; `output`, the kept part; and `stopped`, the
        limit that ended it: "N seconds", "N seconds of CPU time", "N MiB of memory", or "".

    Raises:
        ValueError: the command is empty, or has a zero byte.
    """
    if not command or any("\0" in word for word in command):
        raise ValueError("a command needs a program, and no zero bytes")
    output, stopped = ClippedOutput(limits.output_bytes), ""
    start = ["-I", "-S", str(LAUNCHER), str(folder), str(limits.cpu_seconds), str(limits.memory_mib)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        kept = {name: os.environ[name] for name in ("PATH", *keep) if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, *start, *command],
            env=kept | {"HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(folder,),
            start_new_session=True,
        )
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        os.set_blocking(pipe, False)
        deadline, look = time.monotonic() + limits.wall_seconds, time.monotonic() + LOOK_EVERY
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_READ)
                while process.poll() is None and not stopped:
                    if selector.select(0.02):
                        piece = os.read(pipe, 65_536)
                        output.add(piece)
                        if not piece:  # closed, but the command still runs
                            selector.unregister(pipe)
                    now = time.monotonic()
                    if now > deadline:
                        stopped = f"{limits.wall_seconds:g} seconds"
                    elif now > look:
                        look = now + LOOK_EVERY
                        if memory_of_group(process.pid) > limits.memory_mib:
                            stopped = f"{limits.memory_mib} MiB of memory"
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: no process of it is left
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        with process.stdout, contextlib.suppress(BlockingIOError):
            for _ in range(16):  # what the pipe still holds: a process that has escaped may write forever
                output.add(os.read(pipe, 65_536))
    if code == -signal.SIGXCPU:
        stopped = f"{limits.cpu_seconds} seconds of CPU time"
    return Finished(code, output.text(), stopped)
