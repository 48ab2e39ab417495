"""What became of a load: when each token came, what that says of the server, and what `bench serve` prints of it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...terminal.tables import in_columns
from ..clock import number
from ..machine import in_words

PERCENTILES = (50, 95, 99)
TIMES = ("p50", "p95", "p99")
HEADINGS = ("mode", "tokens/s", "x", *(f"TTFT {p}" for p in TIMES), *(f"TPOT {p}" for p in TIMES), "put back", "hits")


@dataclasses.dataclass
class Answer:
    """One request's, in seconds after the load began."""

    at: float  # when it was sent
    tokens: list[float] = dataclasses.field(default_factory=list)  # when each came
    failed: str = ""  # why it has none, or not all
    counted: int = 0  # how many the server says that there were, if it says so: a piece of text may hold several

    @property
    def first(self) -> float:
        """Time to the first token, TTFT: seconds from when it was sent."""
        return self.tokens[0] - self.at

    @property
    def each(self) -> float:
        """Time per output token, TPOT: seconds between two tokens behind the first, in the mean."""
        return (self.tokens[-1] - self.tokens[0]) / (max(self.counted, len(self.tokens)) - 1)


@dataclasses.dataclass
class Outcome:
    """All of a load."""

    answers: list[Answer]
    preemptions: int = 0
    hits: float | None = None  # the part of the prompts' tokens that a prefix cache had; None: there is none

    @property
    def served(self) -> list[Answer]:
        """Those that have an answer."""
        return [answer for answer in self.answers if answer.tokens and not answer.failed]

    @property
    def throughput(self) -> float:
        """Tokens written a second, from the first request to the last token."""
        last = max((answer.tokens[-1] for answer in self.served), default=0.0)
        written = sum(answer.counted or len(answer.tokens) for answer in self.served)
        return written / (last - min(answer.at for answer in self.answers)) if last else 0.0

    def summary(self) -> dict[str, Any]:
        """How long somebody waited, as a record has it; times in seconds."""
        found: dict[str, Any] = {
            "failed": len(self.answers) - len(self.served),
            "ttft": percentiles([answer.first for answer in self.served]),
            "tpot": percentiles([answer.each for answer in self.served if len(answer.tokens) > 1]),
            "preemptions": self.preemptions,
        }
        return found | ({} if self.hits is None else {"hits": self.hits})


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99, of nothing nothing."""
    return {f"p{p}": float(np.percentile(seconds, p)) for p in PERCENTILES} if seconds else {}


def lines_of(found: dict[str, Any], width: int) -> list[str]:
    """All but the heading."""
    rows, load = found["rows"], found["load"]
    lines = in_columns(HEADINGS, [_cells(row, rows[0]) for row in rows], width)
    read, written, rate = number(load["read"]), number(load["written"]), number(load["rate"])
    median = f", the median of {found['turns']}" if found["turns"] > 1 else ""
    return [
        *lines,
        "",
        f"tokens/s: all {load['requests']} requests at once{median}; {read} tokens to read and {written} to write.",
        f"TTFT, TPOT: as a Poisson process brings {rate} a second, in ms: to the first token, and between two.",
        "put back: requests that gave their memory to older ones. hits: of the prompts, found in the prefix cache.",
        "" if found["fused"] else "Without the kernels of week 2 and day 4: pdm run doctor says what they need.",
        in_words(found["machine"]),
    ]


def _cells(row: dict[str, Any], first: dict[str, Any]) -> Sequence[str]:
    pace = row["tokens/s"]
    times = [number(1000 * row[key][p]) if row[key] else "-" for key in ("ttft", "tpot") for p in TIMES]
    hits = f"{100 * row['hits']:.0f} %" if "hits" in row else "-"
    ratio = "" if row is first else number(pace / first["tokens/s"])
    return row["name"], number(pace), ratio, *times, str(row["preemptions"]), hits
