"""The command that shows another way to write what is written: `pdm run compare 1.1.2`."""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ..course.nouns import Task
from ..course.places import variants_path
from ..course.registry import load_course, with_commands
from ..course.requirements import in_words, missing
from ..course.selection import one_task
from ..grading.day import grade_day
from ..grading.supervisor import Limits
from ..learner import progress
from ..paths import LEARNER, ROOT, SOLUTION
from ..programs.packages import LearnerError
from ..source.written import where
from ..terminal.screen import columns, in_colour, say

if TYPE_CHECKING:
    from ..measuring.speed import Timing
    from ..testkit.variants import Variants

SAME = 0.1  # what a ratio may be away from 1 and mean nothing
WORTH = 1 << 20  # bytes of peak memory below which a ratio means nothing
WIDE = 100  # columns from which two listings fit beside each other


@dataclasses.dataclass(frozen=True)
class Listing:
    """Some code to show: whose it is and where it stands, and its source, or None and why there is none."""

    title: str
    place: str
    source: str | None
    missing: str = ""


@click.command(short_help="Show your code beside ours, when it has passed.")
@click.argument("names", nargs=-1, metavar="1.1.2")
@click.option("--spoil", is_flag=True, help="Show it although the task has not passed.")
def compare(names: tuple[str, ...], spoil: bool) -> int:
    """Show your code beside ours and other ways, with speed and memory, after the task has passed.

    Exit code 1: the task has not passed.
    """
    from ..testkit.variants import load_variants

    task = one_task(names, "compare", lambda task: progress.status_of(task.id) == "passed")
    if not spoil:
        _must_pass(task)
    say(task.label, bold=True)
    say()
    show(_listing("yours", LEARNER, task), _listing("ours", SOLUTION, task))
    variants = load_variants(task)
    others = _others(variants)
    for other in others:
        say()
        show_one(dataclasses.replace(other, title=f"another way: {other.title}"))
    say()
    for line in _figures(variants, {other.title for other in others}):
        say(line)
    return 0


def _must_pass(task: Task) -> None:
    """Raise a LearnerError, with what to type, if the task has not passed."""
    results = grade_day(load_course().day_of(task), tasks=[task])
    statuses = {result.status for result in results}
    if statuses == {"not run here"}:
        raise LearnerError(
            with_commands(
                f"{task.label}: {results[0].not_here}; compare shows ours when yours has passed. To see it now:",
                f"pdm run compare {task.id} --spoil",
            )
        )
    if statuses == {"passed"}:
        return
    what, first = "has not passed yet", "test"
    if statuses == {"borrowed"}:
        what, first = "is borrowed, so nothing of yours is graded", "return"
    raise LearnerError(
        with_commands(
            f"{task.label} {what}, and compare shows ours when yours has passed. First:",
            f"pdm run {first} {task.id}",
            "To see ours all the same:",
            f"pdm run compare {task.id} --spoil",
        )
    )


def _listing(title: str, package: Path, task: Task) -> Listing:
    from ..source.excerpts import NoSuchCode, code_of

    source, missing = None, ""
    try:
        source = code_of(package, task.target)
    except NoSuchCode as error:
        missing = str(error)
    return Listing(title, where(task.target, package.relative_to(ROOT).as_posix()), source, missing)


def _others(variants: "Variants") -> list[Listing]:
    """The accepted programs of a task that stand in one place or are changes of ours, by their names."""
    from ..programs.patched import source_of
    from ..source.excerpts import NoSuchCode, code_of_variant

    file = variants_path(variants.task)
    found = []
    for variant in variants.accepted_programs:
        if variant.edits:
            found.append(Listing(variant.name, "as a change of ours", source_of(variants.task.target, variant.edits)))
            continue
        try:
            line, source = code_of_variant(file, variant.name)
        except NoSuchCode:
            continue  # made by another function, of parts: nothing to read in one place
        found.append(Listing(variant.name, f"{file.relative_to(ROOT).as_posix()}:{line}", source))
    return found


def _figures(variants: "Variants", shown: Collection[str]) -> list[str]:
    """What the comparison in a child process measured, or why it did not."""
    from ..grading.processes import run_limited
    from ..measuring.speed import Timing

    if variants.size is None:
        return [f"Nothing is timed: {variants.untimed or 'no size is stated'}."]
    task = variants.task
    if absent := missing(task.requires):
        return [f"Speed: not measured here: needs {in_words(absent)}."]
    with tempfile.TemporaryDirectory(prefix="tiny-llm-") as folder:
        file = Path(folder, "timings")
        file.touch()
        why = run_limited("measuring.speed", [task.id, str(file)], task.seconds, Limits.memory)
        timings = [Timing(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    if not timings:
        return [f"Speed: not measured, {why or 'nothing was timed'}."]
    mine, *others = timings
    if mine.failed:
        return [f"Speed: not measured, {mine.failed}."]
    rows = [("yours", mine), *((other.name, other) for other in others if other.name in shown)]
    foot = [
        f"On {variants.size.words} (CPU, {mine.runs} runs in turns; ours takes {mine.seconds * 1e3:.3g} ms).",
        f"Within {SAME * 100:.0f} % counts as the same. The code of earlier tasks is ours on both sides.",
    ]
    return ["Speed and memory, where ours is 1:", *_table(rows), *foot, *([f"Stopped: {why}."] if why else [])]


def _table(rows: Sequence[tuple[str, "Timing"]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, timing in rows:
        if timing.failed:
            lines.append(f"  {name:<{width}}  {timing.failed}")
            continue
        parts = [f"time {_number(timing.ratio)} ({_time_words(timing)})", *_memory(timing)]
        lines.append(f"  {name:<{width}}  " + " · ".join(parts))
    return lines


def _time_words(timing: "Timing") -> str:
    if abs(timing.ratio - 1) <= SAME:
        return "the same"
    if timing.low <= 1 + SAME and timing.high >= 1 - SAME:  # another run could say otherwise
        return f"unclear, half of the runs: {_number(timing.low)} to {_number(timing.high)}"
    return "faster" if timing.ratio < 1 else "slower"


def _memory(timing: "Timing") -> list[str]:
    """The peak of memory in words; nothing if neither needs any to speak of."""
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
    """Print two listings, side by side if there is room."""
    console = _console()
    if console is None or console.width < WIDE:
        show_one(left)
        say()
        show_one(right)
        return
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(_rich(left), _rich(right))
    console.print(table)


def show_one(listing: Listing) -> None:
    """Print one listing over the whole width."""
    console = _console()
    if console:
        console.print(_rich(listing))
        return
    say(f"{listing.title}  ({listing.place})")
    say()
    for line in (listing.source or f"{listing.missing}\n").splitlines():
        say(f"    {line}".rstrip())


def _console() -> Console | None:
    """Where to print; None without a terminal."""
    if not sys.stdout.isatty():
        return None
    return Console(color_system="auto" if in_colour(sys.stdout) else None, width=columns(sys.stdout), highlight=False)


def _rich(listing: Listing) -> RenderableType:
    heading = Text.assemble((listing.title, "bold"), f"  {listing.place}", overflow="fold")
    if listing.source is None:
        return Group(heading, "", Text(listing.missing))
    # The terminal's own colours, which can be read on a light and on a dark ground.
    code = Syntax(listing.source, "python", theme="ansi_dark", background_color="default").highlight(listing.source)
    return Group(heading, "", *(_line(line) for line in code.split("\n")))


def _line(line: Text) -> Padding:
    """A line of code; what does not fit goes on below its own beginning, not at the margin."""
    margin = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[margin:] if line.plain.strip() else Text(), (0, 0, 0, 2 + margin))
