"""A server of the learner's: started on a free port, waited for, and ended whatever happens."""

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

LOOK = 0.02  # seconds between two looks whether it answers
LAST_WORDS = 3  # lines of what it wrote
# It leads the server's group and ends it as soon as the other end of its stdin is closed: the system closes that end
# with whoever held it, also when they were killed and could end nothing any more.
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
    """Whether someone listens on a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


@contextlib.contextmanager
def running_server(
    command: Sequence[str], *, ready: Callable[[int], bool] = answers, seconds: float = 15.0
) -> Iterator[int]:
    """While the block runs, so does a server; gives its port on 127.0.0.1.

    Args:
        command: what to start; "{port}" in it stands for the port.
        ready: whether the server on a port can be used; asked until it can.
        seconds: that the server may take until then.

    Raises:
        CheckFailed: it ended, or was not ready in time, or ended while the block ran and so made it fail.
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
    """The finding, with the last lines that the server wrote."""
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - 65536))
    lines = [line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    told = tuple(shortened(f"wrote     {line}") for line in lines[-LAST_WORDS:])
    return CheckFailed(Finding(Kind.STOPPED, headline, told or ("it wrote nothing",)))
