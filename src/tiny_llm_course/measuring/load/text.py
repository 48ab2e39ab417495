"""What `bench serve` prints."""

from collections.abc import Sequence
from typing import Any

from ...terminal.tables import in_columns
from ..clock import number
from ..machine import in_words

TIMES = ("p50", "p95", "p99")
HEADINGS = ("mode", "tokens/s", "x", *(f"TTFT {p}" for p in TIMES), *(f"TPOT {p}" for p in TIMES), "put back", "hits")


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
