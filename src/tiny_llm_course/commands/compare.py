"""`pdm run compare 1.1.2`: the learner's code beside the solution and other accepted programs."""

import json
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from ..course.entities import Task
from ..course.file_paths import variants_path
from ..course.registry import LearnerError, load_course, with_commands
from ..course.requirements import in_words, missing
from ..course.selection import one_task
from ..grading.day import grade_day
from ..grading.processes import run_limited
from ..grading.supervisor import Limits
from ..learner import progress
from ..measuring.speed import Timing
from ..paths import LEARNER, ROOT, SOLUTION
from ..programs.patched import source_of
from ..source.code import where
from ..source.excerpts import NoSuchCode, code_of, code_of_variant
from ..terminal.screen import columns, in_color, say
from ..testkit.variants import Variants, load_variants
from .out_file import waiting

SAME = 0.1  # ratios closer to 1 than this count as equal
WORTH = 1 << 20  # bytes of peak memory below which no ratio is shown
WIDE = 100  # columns for two listings side by side


class Listing(NamedTuple):
    """Code to show, with its location; `source` is None, and `missing` says why, if it is not there."""

    title: str
    place: str
    source: str | None
    missing: str = ""


@click.command()
@click.argument("names", nargs=-1, metavar="1.1.2")
@click.option("--spoil", is_flag=True, help="Show ours even if the task has not passed.")
def compare(names: tuple[str, ...], spoil: bool) -> int:
    """Show your code beside ours and other accepted ways, with speed and memory, once the task has passed."""
    task = one_task(names, "compare", lambda task: progress.status_of(task.id) == "passed")
    if not spoil:
        _must_pass(task)
    say(f"{task.label}\n", bold=True)
    show(_listing("yours", LEARNER, task), _listing("ours", SOLUTION, task))
    variants = load_variants(task)
    others = _others(variants)
    for other in others:
        say()
        show_one(other._replace(title=f"another way: {other.title}"))
    say("\n" + "\n".join(_figures(variants, {other.title for other in others})))
    return 0


def _must_pass(task: Task) -> None:
    """Raise LearnerError, with the next command, unless the task passes."""
    spoil, borrowed = f"pdm run compare {task.id} --spoil", task.id in progress.borrowed()
    with waiting(f"grading {task.id}"):
        results = [] if borrowed else grade_day(load_course().day_of(task), tasks=[task])
    statuses = {result.status for result in results}
    if statuses == {"not run here"}:
        what = f"{task.label}: {results[0].not_here}; compare shows ours once yours has passed. To see it now:"
        raise LearnerError(with_commands(what, spoil))
    if statuses == {"passed"}:
        return
    what, first = "has not passed yet", "test"
    if borrowed:
        what, first = "is borrowed, so your code is not graded", "return"
    what = f"{task.label} {what}; compare shows ours once yours has passed. First:"
    raise LearnerError(with_commands(what, f"pdm run {first} {task.id}", "To see ours anyway:", spoil))


def _listing(title: str, package: Path, task: Task) -> Listing:
    place = where(task.target, package.relative_to(ROOT).as_posix())
    try:
        return Listing(title, place, code_of(package, task.target))
    except NoSuchCode as error:
        return Listing(title, place, None, str(error))


def _others(variants: Variants) -> list[Listing]:
    """Return the accepted programs that are readable in one place or are edits of ours."""
    file = variants_path(variants.task)
    found = []
    for variant in variants.accepted_programs:
        if variant.edits:
            found.append(Listing(variant.name, "as an edit of ours", source_of(variants.task.target, variant.edits)))
            continue
        try:
            line, source = code_of_variant(file, variant.name)
        except NoSuchCode:
            continue  # built from parts: no single place to read
        found.append(Listing(variant.name, f"{file.relative_to(ROOT).as_posix()}:{line}", source))
    return found


def _figures(variants: Variants, shown: Collection[str]) -> list[str]:
    """Return the lines of the measured comparison, which runs in a child process, or why there is none."""
    if variants.size is None:
        return [f"Not timed: {variants.untimed or 'no size is stated'}."]
    task = variants.task
    if absent := missing(task.requires):
        return [f"Speed: not measured here, needs {in_words(absent)}."]
    with tempfile.TemporaryDirectory(prefix="tiny-llm-") as folder:
        file = Path(folder, "timings")
        file.touch()
        with waiting("timing the programs"):
            why = run_limited("measuring.speed", [task.id, str(file)], task.seconds, Limits.memory)
        timings = [Timing(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    if not timings:
        return [f"Speed: not measured, {why or 'nothing was timed'}."]
    mine, *others = timings
    if mine.failed:
        return [f"Speed: not measured, {mine.failed}."]
    rows = [("yours", mine), *((other.name, other) for other in others if other.name in shown)]
    foot = [
        f"On {variants.size.words} (CPU, {mine.runs} interleaved runs; ours takes {mine.seconds * 1e3:.3g} ms).",
        f"Within {SAME * 100:.0f} % counts as the same. Earlier tasks run our code on both sides.",
    ]
    return ["Speed and memory, relative to ours:", *_table(rows), *foot, *([f"Stopped: {why}."] if why else [])]


def _table(rows: Sequence[tuple[str, Timing]]) -> list[str]:
    lines, width = [], max(len(name) for name, _ in rows)
    for name, timing in rows:
        parts = [f"time {_number(timing.ratio)} ({_time_words(timing)})", *_memory(timing)]
        lines.append(f"  {name:<{width}}  " + (timing.failed or " · ".join(parts)))
    return lines


def _time_words(timing: Timing) -> str:
    if abs(timing.ratio - 1) <= SAME:
        return "the same"
    if timing.low <= 1 + SAME and timing.high >= 1 - SAME:  # within the noise
        return f"unclear, half of the runs: {_number(timing.low)} to {_number(timing.high)}"
    return "faster" if timing.ratio < 1 else "slower"


def _memory(timing: Timing) -> list[str]:
    """Return the peak memory in words; nothing if neither program uses 1 MB."""
    theirs = timing.memory * timing.memory_ratio
    if max(timing.memory, theirs) < WORTH:
        return []
    if timing.memory < WORTH:
        return [f"memory {theirs / WORTH:.3g} MB, ours less than 1"]
    same = abs(timing.memory_ratio - 1) <= SAME
    words = "the same" if same else "less" if timing.memory_ratio < 1 else "more"
    return [f"memory {_number(timing.memory_ratio)} ({words})"]


def _number(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"


def show(left: Listing, right: Listing) -> None:
    """Print two listings, side by side if the terminal is wide enough."""
    console = _console()
    if console is None or console.width < WIDE:
        show_one(left)
        say()
        show_one(right)
        return
    table = Table.grid(Column(ratio=1), Column(ratio=1), expand=True, padding=(0, 2, 0, 0))
    table.add_row(_rich(left), _rich(right))
    console.print(table)


def show_one(listing: Listing) -> None:
    """Print one listing over the whole width."""
    if console := _console():
        console.print(_rich(listing))
        return
    lines = (listing.source or f"{listing.missing}\n").splitlines()
    say("\n".join([f"{listing.title}  ({listing.place})", "", *(f"    {line}".rstrip() for line in lines)]))


def _console() -> Console | None:
    if not sys.stdout.isatty():
        return None
    return Console(color_system="auto" if in_color(sys.stdout) else None, width=columns(sys.stdout), highlight=False)


def _rich(listing: Listing) -> RenderableType:
    heading = Text.assemble((listing.title, "bold"), f"  {listing.place}", overflow="fold")
    if listing.source is None:
        return Group(heading, "", Text(listing.missing))
    # The terminal's own colors, readable on light and dark backgrounds.
    code = Syntax(listing.source, "python", theme="ansi_dark", background_color="default").highlight(listing.source)
    return Group(heading, "", *(_line(line) for line in code.split("\n")))


def _line(line: Text) -> Padding:
    """Return a line of code whose continuation lines keep its indentation."""
    margin = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[margin:] if line.plain.strip() else Text(), (0, 0, 0, 2 + margin))
