"""Benchmarks of whole engines: `bench engine` (one, against the machine), `bench --progression` and `bench serve`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..course.registry import UsageError, load_course
from ..dev.book.measured import PROGRESSION, ROOFLINE, SERVING
from ..engine.engine import load_engine
from ..engine.serving import load_scheduler
from ..engine.stages import undone
from ..measuring import engine_speed, progression, progression_text, roofline_text
from ..measuring.clock import number
from ..measuring.load import sending, speed
from ..terminal.screen import USUAL, columns, say
from .out_file import must_take_measurement, waiting, write

SHOWN = 12  # requests of a replay
Lines = Callable[[dict[str, Any], int], list[str]]  # of a result, for a width


def bench_engine(which: dict[str, Any], quick: bool, file: Path | None, svg: Path | None) -> int:
    """Measure the engine that `which` names, as `load_engine` takes it; print the result and write the files."""
    must_take_measurement(file, svg, "title", "quick", "rows", "machine")
    engine = load_engine(**which)
    with waiting("measuring, up to 20 seconds"):
        found = engine_speed.measure(engine, quick)
    _show(f"{found['title']}, {found['storage']}", found, roofline_text.lines_of)
    say(f"Measured: {engine.runs}.")
    return _write(found, file, svg, ROOFLINE.in_a_file)


def bench_progression(which: dict[str, Any], quick: bool, file: Path | None, svg: Path | None) -> int:
    """Measure all stages on the model that `which` names; print the result and write the files."""
    must_take_measurement(file, svg, "title", "quick", "rows", "machine")
    with waiting("measuring, up to a minute"):
        found = progression.measure(**which, quick=quick)
    _show(found["title"], found, progression_text.lines_of)
    next_task = next((id_ for stage in load_course().stages() for id_ in undone(stage, which["solution"])), None)
    if next_task:
        say(f"The next stage needs task {next_task}: pdm run test {next_task}")
    return _write(found, file, svg, PROGRESSION.in_a_file)


def bench_serve(
    which: dict[str, Any], stage: str | None, typed: dict[str, Any], quick: bool, file: Path | None, svg: Path | None
) -> int:
    """Run the load on all modes, send it to a URL, or replay it on `stage`; print the result and write the files."""
    load = sending.Load(**{name: typed[name] for name in ("requests", "rate", "seed") if typed[name] is not None})
    if typed["replay"] or typed["url"]:
        if file or svg or (typed["replay"] and typed["url"]):
            raise UsageError("--replay and --url combine neither with --json or --svg nor with each other.")
        return _replay(which, stage, load) if typed["replay"] else _send(which, load, typed["url"])
    if stage:
        raise UsageError("All stages are measured; --stage only selects the stage that --replay shows.")
    must_take_measurement(file, svg, "title", "load", "rows", "machine")
    with waiting("measuring, a minute or two"):
        found = speed.measure(which, load, quick, note=lambda _: None)
    _show(found["title"], found, speed.lines_of, small="the load is")
    say(f"All ran with {found['runs'].partition(', ')[2]}.")
    return _write(found, file, svg, SERVING.in_a_file)


def _replay(which: speed.Which, stage: str | None, load: Any) -> int:
    engine = load_scheduler(**which, mode=stage)
    steps, came = sending.replay(engine, speed.sample(load, engine, SHOWN))
    timeline, render = engine.part("serving.timeline", "timeline"), engine.part("serving.timeline", "render")
    say(f"Stage {engine.mode.name}: {engine.mode.title}. A column is a step.\n", bold=True)
    say("\n".join(render(timeline(steps, came), width=columns(sys.stdout) or USUAL)), cut=True)
    return 0


def _send(which: speed.Which, load: Any, url: str) -> int:
    model = sending.model_at(url)
    engine = load_scheduler(**which | {"solution": True})  # for its tokenizer only
    with waiting(f"sending {load.requests} requests"):
        answered = sending.send(url, model, engine, sending.arrivals(engine, load))
    found = answered.summary()
    say(f"{model} at {url}: {load.requests} requests, {found['failed']} failed", bold=True)
    say(f"  {number(answered.throughput)} tokens/s")
    for name, key in (("time to first token", "ttft"), ("time per output token", "tpot")):
        if times := found[key]:
            parts = ", ".join(f"{p} {number(1000 * seconds)} ms" for p, seconds in times.items())
            say(f"  {name}: {parts}")
    for reason in sorted({answer.failed for answer in answered.answers if answer.failed})[:3]:
        say(f"  failed: {reason}", color="yellow")
    return 0


def _show(heading: str, found: dict[str, Any], lines_of: Lines, small: str = "the sizes are") -> None:
    say(f"{heading}  ({found['package']})\n", bold=True)
    say("\n".join(lines_of(found, columns(sys.stdout) or USUAL)), cut=True)
    if found["quick"]:
        say(f"Measured with --quick: {small} too small for meaningful numbers.", color="yellow")


def _write(found: dict[str, Any], file: Path | None, svg: Path | None, drawn: Callable[[dict[str, Any]], str]) -> int:
    if file:
        write(file, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if svg:
        write(svg, drawn(found))
    return 0
