"""Start a learner's server on a free port, wait until it answers, and end it whatever happens."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from ..course.findings import CheckFailed, Finding, Kind, shortened

LOOK = 0.02  # seconds between two polls
LAST_WORDS = 3  # lines of what it wrote
# It leads the server's process group and kills it as soon as its stdin is closed: the system closes the pipe when the
# grading process ends, even if that was killed.
KEEPER = """
import os, signal, subprocess, sys, threading
def end():
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=end, daemon=True).start()
status = server.wait()
os._exit(status if status >= 0 else 128 - status)
"""


def answers(port: int) -> bool:
    """Return whether a process listens on a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


@contextlib.contextmanager
def running_server(
    command: Sequence[str], *, ready: Callable[[int], bool] = answers, seconds: float = 15.0
) -> Iterator[int]:
    """Run a server while the block runs, and yield its port on 127.0.0.1, which replaces "{port}" in the command.

    `ready` is polled for at most `seconds`. Raise CheckFailed if it ends or is not ready, or if its end makes the block
    fail.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as output:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", KEEPER, *(part.replace("{port}", str(port)) for part in command)],
            process_group=0,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            until = time.monotonic() + seconds
            while not ready(port):
                if keeper.poll() is not None:
                    raise _failed(f"your server ended before it answered (exit code {keeper.returncode})", output)
                if time.monotonic() > until:
                    raise _failed(f"your server did not answer within {seconds:g} s", output)
                time.sleep(LOOK)
            try:
                yield port
            except Exception as error:
                if keeper.poll() is None or isinstance(error, CheckFailed):
                    raise
                raise _failed(f"your server ended while it was used (exit code {keeper.returncode})", output) from error
        finally:
            # Its whole group. (macOS refuses for a group that has ended.)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(keeper.pid, signal.SIGKILL)
            keeper.communicate()


def _failed(headline: str, output: IO[bytes]) -> CheckFailed:
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - 65536))
    lines = [line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    wrote = tuple(shortened(f"wrote     {line}") for line in lines[-LAST_WORDS:])
    return CheckFailed(Finding(Kind.STOPPED, headline, wrote or ("it wrote nothing",)))
