"""A process on a terminal of its own, typed to and read by a test."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

from tests.course.fork_process import take_terminal

from tiny_llm_course.dev.transcripts import environment
from tiny_llm_course.paths import ROOT

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
PATIENCE = 30  # seconds; a test that waits so long has failed


def all_of(ours: int) -> bytes:
    """What comes to our end of a terminal until its other end is closed; closes ours too."""
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:
        pass  # how Linux says that the terminal has no other end any more
    os.close(ours)
    return output


class Terminal:
    """Runs one of the course's commands. What is read so far stands in `screen`, without carriage returns."""

    def __init__(self, *args: str, checkout: Path = ROOT, columns: int = 80, kind: str = "dumb") -> None:
        self.ours, theirs = pty.openpty()
        self.resize(columns)
        env = {**environment(checkout), "NO_COLOR": "1", "TERM": kind}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tiny_llm_course", *args],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=checkout, env=env, start_new_session=True,
            preexec_fn=take_terminal,
        )  # fmt: skip
        os.close(theirs)
        self.screen = ""
        self.seen = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)

    def resize(self, columns: int) -> None:
        """Make the terminal as wide as this."""
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press these keys, as late as a person would: between its prompt and its waiting, readline loses a signal."""
        time.sleep(0.1)
        os.write(self.ours, text.encode())

    def wait_for(self, text: str) -> str:
        """Read until the text has come after what was waited for before; gives what came with it."""
        end = time.monotonic() + PATIENCE
        while text not in self.screen[self.seen :]:
            assert time.monotonic() < end, f"waited for {text!r} after {self.screen!r}"
            assert self.read(end), f"ended before {text!r}: {self.screen!r}"
        start, self.seen = self.seen, self.screen.index(text, self.seen) + len(text)
        return self.screen[start : self.seen]

    def end(self) -> int:
        """Read until the program has ended; gives its exit code."""
        end = time.monotonic() + PATIENCE
        while self.read(end):
            assert time.monotonic() < end, f"does not end: {self.screen!r}"
        return self.process.wait(PATIENCE)

    def read(self, end: float | None = None) -> bool:
        """Take what has come, or wait for it until `end`; False when there will be nothing more."""
        end = end or time.monotonic() + PATIENCE
        if not select.select([self.ours], [], [], max(0, end - time.monotonic()))[0]:
            return True
        try:
            chunk = os.read(self.ours, 65536)
        except OSError:  # how Linux says that the terminal has no other end any more
            return False
        self.screen += chunk.decode(errors="replace").replace("\r", "")
        return bool(chunk)
