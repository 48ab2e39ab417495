"""What the learner's code prints while it is graded: a few lines are kept, the others counted."""

import io

# More of the learner's prints is not passed on; the rest is counted.
KEPT_LINES = 5
KEPT_COLUMNS = 100


class Prints(io.TextIOBase):
    """Stands in for stdout and stderr while the learner's code runs; keeps a few lines and counts the others."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._partial = ""

    def write(self, text: str) -> int:
        """Take some text."""
        *whole, rest = (self._partial + text).split("\n")
        self.count += len(whole)
        self.lines += [line[:KEPT_COLUMNS] for line in whole[: KEPT_LINES - len(self.lines)]]
        self._partial = rest[: KEPT_COLUMNS + 1]  # a line without an end must not fill the memory
        return len(text)

    def end_line(self) -> None:
        """Count a last line that was not ended."""
        if self._partial:
            self.write("\n")

    def writable(self) -> bool:
        """It can be written to."""
        return True
