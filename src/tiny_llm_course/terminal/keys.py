"""Single keys from a terminal, without Enter; the terminal's mode is always restored."""

import contextlib
import os
import signal
import sys
import termios
import tty
from types import FrameType, TracebackType
from typing import Any

CTRL_D = "\x04"


class Keys:
    """A context in which stdin yields single keys. Without a terminal, `fd` is None and there are no keys."""

    def __init__(self) -> None:
        self.fd: int | None = None
        self._mode: list[Any] = []
        self._before: Any = None

    def __enter__(self) -> "Keys":
        if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
            fd = sys.stdin.fileno()
            self._mode = termios.tcgetattr(fd)
            self.fd = fd
            self._before = signal.signal(signal.SIGCONT, self._back)
            self._listen()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.fd is not None:
            signal.signal(signal.SIGCONT, self._before)
            with contextlib.suppress(termios.error):  # the terminal was closed
                termios.tcsetattr(self.fd, termios.TCSAFLUSH, self._mode)

    def read(self) -> str:
        """Return the pressed key in lower case, "q" at the end of input, "" for an escape sequence such as an arrow."""
        assert self.fd is not None
        try:
            typed = os.read(self.fd, 1024).decode(errors="replace")
        except OSError:  # Linux: the terminal was closed
            return "q"
        if typed in ("", CTRL_D):
            return "q"
        return "" if typed.startswith("\x1b") else typed[-1].lower().replace("\r", "\n")

    def _listen(self) -> None:
        assert self.fd is not None
        tty.setcbreak(self.fd, termios.TCSADRAIN)  # not raw: Ctrl-C remains a signal

    def _back(self, number: int, frame: FrameType | None) -> None:
        """Restore the mode after Ctrl-Z and `fg`, because the shell has changed it."""
        assert self.fd is not None
        if os.tcgetpgrp(self.fd) == os.getpgrp():  # otherwise it resumed in the background
            self._listen()
