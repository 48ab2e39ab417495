"""`bench serve`: one load on every available serving mode, from static batching to all features together."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...course.entities import Mode
from ...course.registry import load_course
from ...engine.serving import ServingEngine, load_scheduler
from ...engine.stages import lacking, simulated
from ...paths import ROOT
from ...terminal.tables import in_columns
from ..clock import number
from ..engine_speed import name_of
from ..machine import circumstances, in_words
from .sending import Arrival, Load, arrivals, play

TIMES = ("p50", "p95", "p99")
HEADINGS = ("mode", "tokens/s", "x", *(f"TTFT {p}" for p in TIMES), *(f"TPOT {p}" for p in TIMES), "preempted", "hits")
RECORD = ROOT / "benches" / "bench_serve.json"  # of our solution, for the book
BUSY = 0.8  # default request rate, as a share of what `continuous` can serve
QUICK = 4  # requests
TURNS = 5  # rounds over all modes, of which the medians count; fewer after LONG
LONG = 10.0  # seconds
SHORT = 64  # output tokens of a replayed request, at most


Which = dict[str, Any]  # the measured engine: arguments of `load_scheduler`
Note = Callable[[str], None]


def measure(which: Which, load: Load, quick: bool = False, note: Note = print) -> dict[str, Any]:
    """Return a row per mode, as JSON data; LearnerError if the learner's code is unfinished or fails.

    Each mode gets the load all at once, interleaved, for its throughput, and as Poisson arrivals for its latencies.
    """
    if quick:
        load = load._replace(requests=QUICK)
    modes, begun = there(which["solution"]), time.perf_counter()
    turns: list[list[dict[str, float]]] = []
    while not turns or (not quick and len(turns) < TURNS and time.perf_counter() - begun < LONG):
        turns.append([_throughput(which, mode, load, note) for mode in modes])
    by_mode = zip(*turns, strict=True)
    medians = [{key: statistics.median(each[key] for each in found) for key in found[0]} for found in by_mode]
    rows = [{"name": mode.name, "about": mode.title, **median} for mode, median in zip(modes, medians, strict=True)]
    rate = load.rate or BUSY * rows[min(1, len(rows) - 1)]["requests/s"]
    for mode, row in zip(modes, rows, strict=True):
        note(f"{mode.name}, {rate:.1f} requests a second")
        engine = load_scheduler(**which, mode=mode.name)
        come = arrivals(engine, load._replace(rate=rate))
        row |= play(engine, come).summary()
    read, written = sum(len(each.prompt) for each in come), sum(each.max_tokens for each in come)
    return {
        "title": f"{name_of(engine.checkpoint.folder)}, {load.requests} requests",
        **circumstances(engine.package, quick),
        "load": load._asdict() | {"rate": rate, "read": read, "written": written},
        "turns": len(turns),
        "fused": not engine.lacks_kernels,
        "runs": engine.runs,
        "rows": rows,
    }


def there(solution: bool) -> Sequence[Mode]:
    """Return the modes that can be measured: the first, and those whose tasks the learner has passed."""
    first, *others = load_course().modes()
    return [first, *(mode for mode in others if not (simulated(mode) or lacking(mode, solution)))]


def _throughput(which: Which, mode: Mode, load: Load, note: Note) -> dict[str, float]:
    note(mode.name)
    engine = load_scheduler(**which, mode=mode.name)
    at_once = arrivals(engine, load._replace(rate=None))
    play(engine, [arrival._replace(prompt=arrival.prompt[:8]) for arrival in at_once[:2]])  # warms up
    outcome = play(engine, at_once)
    seconds = max(answer.tokens[-1] for answer in outcome.served)
    return {"tokens/s": outcome.throughput, "requests/s": len(outcome.served) / seconds}


def sample(load: Load, engine: ServingEngine, most: int) -> list[Arrival]:
    """Return a load's first requests, with times in steps, for `--replay`."""
    found = arrivals(engine, load._replace(requests=min(load.requests, most), rate=load.rate or 0.25))
    short = [arrival._replace(max_tokens=min(arrival.max_tokens, SHORT)) for arrival in found]
    return [arrival._replace(at=float(round(arrival.at))) for arrival in short]


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
