"""What a command may use, how it ended, and the part of its output that is kept."""

import dataclasses
import subprocess


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of one command. CPU time counts for each of its processes, the others for all of them together."""

    wall_seconds: float = 120.0
    cpu_seconds: int = 120
    memory_mib: int = 4096
    output_bytes: int = 16_000


@dataclasses.dataclass(frozen=True)
class Finished:
    """How a command ended. `code` is negative for a signal; `stopped` names the limit that ended it, or is empty."""

    code: int
    output: str
    stopped: str = ""

    def report(self) -> str:
        """Return the output and a last line about the end."""
        end = f"stopped at its limit of {self.stopped}" if self.stopped else f"exit code {self.code}"
        return f"{self.output.rstrip()}\n[{end}]".lstrip()


class ClippedOutput:
    """Keeps the first and the last bytes of a stream, half of `limit` each, and counts the others."""

    def __init__(self, limit: int) -> None:
        """Start empty."""
        self.half = limit // 2
        self.first, self.last, self.total = b"", bytearray(), 0

    def add(self, piece: bytes) -> None:
        """Append to the stream."""
        self.total += len(piece)
        missing = self.half - len(self.first)
        self.first += piece[:missing]
        self.last += piece[missing:]
        del self.last[: -self.half]

    def text(self) -> str:
        """Return what is kept, with a line about what is not. Invalid UTF-8 is replaced."""
        lost = self.total - len(self.first) - len(self.last)
        parts = [self.first, f"\n[{lost:,} bytes left out]\n".encode() if lost else b"", bytes(self.last)]
        return b"".join(parts).decode(errors="replace")


def memory_of_group(group: int) -> int:
    """Return the resident memory of a process group in MiB, as `ps` reports it; 0 where there is no `ps`."""
    try:
        table = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return 0
    rows = [line.split() for line in table.splitlines()]
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == str(group)) // 1024
