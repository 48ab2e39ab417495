"""See whether a command has left a process running: it would still have a pipe open for writing."""

import contextlib
import os
import tempfile
import time
from pathlib import Path

HOLD = "exec 9>held; sleep 3 & echo ok"  # run in the folder; the process in the background has the pipe open


@contextlib.contextmanager
def background_process():
    """Yield a folder with a pipe `held`, and a function that returns whether any process has it open."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(Path(folder) / "held")
        reader = os.open(Path(folder) / "held", os.O_RDONLY | os.O_NONBLOCK)

        def alive():
            until = time.monotonic() + 0.7  # a process that was killed may need a moment
            while time.monotonic() < until:
                try:
                    if os.read(reader, 1) == b"":
                        return False
                except BlockingIOError:
                    time.sleep(0.02)
            return True

        try:
            yield folder, alive
        finally:
            os.close(reader)
