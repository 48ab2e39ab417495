"""The end of what a process writes."""

import threading
from typing import IO

KEPT = 65536  # bytes


class Tail(threading.Thread):
    """Reads a pipe to its end and keeps the last of it, so that a flood of words blocks nobody and fills no memory."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._kept = b""
        self.start()

    def run(self) -> None:
        """Read."""
        with self._pipe as pipe:
            while chunk := pipe.read1(KEPT):  # type: ignore[attr-defined]
                self._kept = (self._kept + chunk)[-KEPT:]

    def text(self) -> str:
        """What was read last."""
        return self._kept.decode(errors="replace")
