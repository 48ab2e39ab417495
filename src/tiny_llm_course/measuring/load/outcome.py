"""The result of a load test: token times, their statistics, and the table that `bench serve` prints."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...terminal.tables import in_columns
from ..clock import number
from ..machine import in_words

PERCENTILES = (50, 95, 99)
TIMES = ("p50", "p95", "p99")
HEADINGS = ("mode", "tokens/s", "x", *(f"TTFT {p}" for p in TIMES), *(f"TPOT {p}" for p in TIMES), "preempted", "hits")


@dataclasses.dataclass
class Answer:
    """One request's times, in seconds since the start of the load."""

    at: float  # when it was sent
    tokens: list[float] = dataclasses.field(default_factory=list)  # arrival time of each
    failed: str = ""  # why tokens are missing
    counted: int = 0  # output tokens by the server's own count, if any: a chunk may hold several

    @property
    def first(self) -> float:
        """Return the time to first token (TTFT), from sending."""
        return self.tokens[0] - self.at

    @property
    def each(self) -> float:
        """Return the time per output token (TPOT): the mean time between tokens after the first."""
        return (self.tokens[-1] - self.tokens[0]) / (max(self.counted, len(self.tokens)) - 1)


@dataclasses.dataclass
class Outcome:
    """The result of a load."""

    answers: list[Answer]
    preemptions: int = 0
    hits: float | None = None  # prefix-cache hit rate, by prompt tokens; None without a cache

    @property
    def served(self) -> list[Answer]:
        """Return the requests that were answered in full."""
        return [answer for answer in self.answers if answer.tokens and not answer.failed]

    @property
    def throughput(self) -> float:
        """Return the output tokens per second, from the first request to the last token."""
        last = max((answer.tokens[-1] for answer in self.served), default=0.0)
        written = sum(answer.counted or len(answer.tokens) for answer in self.served)
        return written / (last - min(answer.at for answer in self.answers)) if last else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the statistics as JSON data; times in seconds."""
        found: dict[str, Any] = {
            "failed": len(self.answers) - len(self.served),
            "ttft": percentiles([answer.first for answer in self.served]),
            "tpot": percentiles([answer.each for answer in self.served if len(answer.tokens) > 1]),
            "preemptions": self.preemptions,
        }
        return found | ({} if self.hits is None else {"hits": self.hits})


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99; {} for no values."""
    return {f"p{p}": float(np.percentile(seconds, p)) for p in PERCENTILES} if seconds else {}


def lines_of(found: dict[str, Any], width: int) -> list[str]:
    """Return the printed lines, except the heading."""
    rows, load = found["rows"], found["load"]
    lines = in_columns(HEADINGS, [_cells(row, rows[0]) for row in rows], width)
    read, written, rate = number(load["read"]), number(load["written"]), number(load["rate"])
    median = f", the median of {found['turns']}" if found["turns"] > 1 else ""
    return [
        *lines,
        "",
        f"tokens/s: all {load['requests']} requests at once{median}; {read} prompt and {written} output tokens.",
        f"TTFT, TPOT: Poisson arrivals, {rate} requests/s, in ms: time to first token, time per output token.",
        "preempted: number of preemptions. hits: share of prompt tokens found in the prefix cache.",
        "" if found["fused"] else "Without the kernels of week 2 and day 4: pdm run doctor says what they need.",
        in_words(found["machine"]),
    ]


def _cells(row: dict[str, Any], first: dict[str, Any]) -> Sequence[str]:
    pace = row["tokens/s"]
    times = [number(1000 * row[key][p]) if row[key] else "-" for key in ("ttft", "tpot") for p in TIMES]
    hits = f"{100 * row['hits']:.0f} %" if "hits" in row else "-"
    ratio = "" if row is first else number(pace / first["tokens/s"])
    return row["name"], number(pace), ratio, *times, str(row["preemptions"]), hits
