"""Whole engines: `bench engine` is one beside what this machine allows, `bench --progression` all that there are."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..course.registry import load_course
from ..engine.stages import undone
from ..terminal.screen import USUAL, columns, say
from . import out_file
from .waiting import waiting


def bench_engine(which: dict[str, Any], quick: bool, file: Path | None, svg: Path | None) -> int:
    """Measure an engine, `which` names it as `load_engine` does; print it, and write the files that are asked for."""
    from ..dev.book import rooflines
    from ..engine.engine import load_engine
    from ..measuring.engine_speed import measure
    from ..measuring.roofline_text import lines_of

    _must_be_writable(file, svg)
    engine = load_engine(**which)
    with waiting("measuring, up to 20 seconds"):
        found = measure(engine, quick)
    _say(f"{found['title']}, {found['storage']}", found, lines_of(found, columns(sys.stdout) or USUAL))
    _write(found, file, svg, rooflines.in_a_file)
    return 0


def bench_progression(which: dict[str, Any], quick: bool, file: Path | None, svg: Path | None) -> int:
    """Measure all stages of a model, which `which` names; print them, and write the files that are asked for."""
    from ..dev.book import progressions
    from ..measuring.progression import measure
    from ..measuring.progression_text import lines_of

    _must_be_writable(file, svg)
    with waiting("measuring, up to a minute"):
        found = measure(**which, quick=quick)
    _say(found["title"], found, lines_of(found, columns(sys.stdout) or USUAL))
    next_task = next((id_ for stage in load_course().stages() for id_ in undone(stage, which["solution"])), None)
    if next_task:
        say(f"The next stage is yours with task {next_task}: pdm run test {next_task}")
    _write(found, file, svg, progressions.in_a_file)
    return 0


def _must_be_writable(file: Path | None, svg: Path | None) -> None:
    if file:
        out_file.must_be_writable(file, "record", _is_record)
    if svg:
        out_file.must_be_writable(svg, "drawing", lambda contents: contents.startswith(b"<svg "))


def _is_record(contents: bytes) -> bool:
    try:
        found = json.loads(contents)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= {"title", "quick", "rows", "machine"}


def _say(heading: str, found: dict[str, Any], lines: list[str]) -> None:
    say(f"{heading}  ({found['package']})", bold=True)
    say()
    for line in lines:
        say(line, cut=True)
    if found["quick"]:
        say("Measured with --quick: the sizes are too small to say anything.", colour="yellow")


def _write(found: dict[str, Any], file: Path | None, svg: Path | None, drawn: Callable[[dict[str, Any]], str]) -> None:
    if file:
        out_file.write(file, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if svg:
        out_file.write(svg, drawn(found))
