"""The first lines that the learner's code prints, and how many there are."""

import io

KEPT_LINES = 5
KEPT_COLUMNS = 100


class Prints(io.TextIOBase):
    """Replace stdout and stderr while the learner's code runs; keep a few lines and count the others."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._partial = ""

    def write(self, text: str) -> int:
        """Take some text."""
        *whole, rest = (self._partial + text).split("\n")
        self.count += len(whole)
        self.lines += [line[:KEPT_COLUMNS] for line in whole[: KEPT_LINES - len(self.lines)]]
        self._partial = rest[: KEPT_COLUMNS + 1]  # an endless line must not fill memory
        return len(text)

    def end_line(self) -> None:
        """Count a last line without a newline."""
        if self._partial:
            self.write("\n")

    def writable(self) -> bool:
        """Return True."""
        return True
