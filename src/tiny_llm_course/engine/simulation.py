"""Engines whose Metal kernels run on the simulator: the progress of a text, and what its kernels count."""

import os
import sys
from collections import defaultdict
from collections.abc import Iterator

from metal_simulator import Counters

from ..programs.launches import listening
from ..terminal.tables import in_columns
from ..testkit.kernels import sums
from .engine import Answer

HANDFUL = 4  # tokens of a text by default: each takes seconds
HEADINGS = "kernel", "launches", "bytes moved", "barriers", "bank conflicts"


class Simulation:
    """The counters of an answer's steps: the first is prefill, each later one decodes a token."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.steps: defaultdict[int, list[tuple[str, Counters]]] = defaultdict(list)  # by the tokens before
        self._shows = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def text(self, pieces: Iterator[str]) -> Iterator[str]:
        """Yield the answer's pieces and count what its kernels do, with a line of progress until the first piece."""
        with listening(self._launched):
            try:
                for piece in pieces:
                    self._clear()
                    yield piece
            finally:
                self._clear()

    def lines(self, width: int) -> list[str]:
        """Return the counts of the last complete step by kernel, and those of prefill; [] if there is none."""
        if (count := self._answer.tokens) not in range(1, len(self.steps) + 1):
            return []
        by_kernel: defaultdict[str, list[Counters]] = defaultdict(list)
        for name, counters in self.steps[count - 1]:
            by_kernel[name].append(counters)
        ordered = sorted(by_kernel.items(), key=lambda each: -sums(each[1])["moved"])
        rows = [_row(name, counters) for name, counters in [*ordered, ("all", self._of(count - 1))]]
        before = [f"Prefill: {', '.join(map(' '.join, zip(_row('', self._of(0))[1:], HEADINGS[1:], strict=True)))}."]
        what = f"Token {count}" if count > 1 else "Prefill"
        return [f"{what}, as the simulator counts:", *in_columns(HEADINGS, rows, width), *before[: count - 1]]

    def _of(self, step: int) -> list[Counters]:
        return [counters for _, counters in self.steps[step]]

    def _launched(self, kernel: str, counters: Counters) -> None:
        step = self.steps[self._answer.tokens]
        step.append((kernel, counters))
        if self._shows:
            at = f"token {self._answer.tokens + 1} of {self._answer.most}, kernel {len(step)}"
            print(f"\rSimulating {at}\x1b[K", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._shows = False


def _row(name: str, launches: list[Counters]) -> list[str]:
    found = sums(launches)
    numbers = len(launches), found["moved"], found["barriers"], found["bank_conflicts"]
    return [name, *(f"{number:,}" for number in numbers)]
