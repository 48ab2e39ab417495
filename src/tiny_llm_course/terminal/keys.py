"""Single keys from a terminal, without Enter; whatever happens, the terminal is left as it was found."""

import contextlib
import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any

CTRL_D = "\x04"


class Keys:
    """A context in which stdin gives each key as it is pressed. Without a terminal there are no keys: `fd` is None."""

    def __init__(self) -> None:
        self.fd: int | None = None
        self._mode: list[Any] = []
        self._before: Any = None

    def __enter__(self) -> "Keys":
        if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
            import termios

            fd = sys.stdin.fileno()
            self._mode = termios.tcgetattr(fd)
            self.fd = fd
            self._before = signal.signal(signal.SIGCONT, self._back)
            self._listen()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.fd is not None:
            import termios

            signal.signal(signal.SIGCONT, self._before)
            with contextlib.suppress(termios.error):  # the terminal has gone
                termios.tcsetattr(self.fd, termios.TCSAFLUSH, self._mode)

    def read(self) -> str:
        """The key that was pressed, in lower case, "q" at the end of the input; an arrow or the like gives nothing."""
        assert self.fd is not None
        try:
            typed = os.read(self.fd, 1024).decode(errors="replace")
        except OSError:  # how Linux says that the terminal has gone
            return "q"
        if typed in ("", CTRL_D):
            return "q"
        return "" if typed.startswith("\x1b") else typed[-1].lower().replace("\r", "\n")

    def _listen(self) -> None:
        import termios
        import tty

        assert self.fd is not None
        # Ctrl-C stays a signal.
        tty.setcbreak(self.fd, termios.TCSADRAIN)

    def _back(self, number: int, frame: FrameType | None) -> None:
        """After Ctrl-Z and `fg`: the shell has set the terminal for itself meanwhile."""
        assert self.fd is not None
        if os.tcgetpgrp(self.fd) == os.getpgrp():  # else it went on in the background
            self._listen()
