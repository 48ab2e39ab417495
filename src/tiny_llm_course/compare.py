"""The command that shows another way to write what is written: `pdm run compare 1.1.2`."""

import dataclasses
import json
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import progress
from .child_process import Limits
from .grading import grade_day
from .packages import LearnerError
from .paths import LEARNER, ROOT, SOLUTION
from .registry import Task, load_course, with_commands
from .report import where
from .screen import say
from .selection import one_task

if TYPE_CHECKING:
    from .speed import Timing

SAME = 0.1  # what a ratio may be away from 1 and mean nothing
WORTH = 1 << 20  # bytes of peak memory below which a ratio means nothing


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
    task = one_task(names, "compare", lambda task: progress.status_of(task.id) == "passed")
    if not spoil:
        _must_pass(task)
    from .side_by_side import show, show_one

    say(task.label, bold=True)
    say()
    show(_listing("yours", LEARNER, task), _listing("ours", SOLUTION, task))
    others = _others(task)
    for other in others:
        say()
        show_one(dataclasses.replace(other, title=f"another way: {other.title}"))
    say()
    for line in _figures(task, {other.title for other in others}):
        say(line)
    return 0


def _must_pass(task: Task) -> None:
    """Raise a LearnerError, with what to type, if the task has not passed."""
    results = grade_day(load_course().day(task.week, task.day), tasks=[task])
    statuses = {result.status for result in results}
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
    from .own_code import NoSuchCode, code_of

    parts, missing = [], []
    for target in task.targets:
        try:
            parts.append(code_of(package, target))
        except NoSuchCode as error:
            missing.append(str(error))
    place = where(task.targets[0], package.relative_to(ROOT).as_posix())
    return Listing(title, place, "\n".join(parts) or None, "; ".join(missing))


def _others(task: Task) -> list[Listing]:
    """The accepted programs of the task that stand in one place, by their names."""
    from .day_files import variants_path
    from .own_code import NoSuchCode, code_of_variant
    from .variants import load_variants

    day = load_course().day(task.week, task.day)
    file = variants_path(day)
    found = []
    for variant in load_variants(day).accepted_of(task.id):
        try:
            line, source = code_of_variant(file, variant)
        except NoSuchCode:
            continue  # made by another function, of parts: nothing to read in one place
        found.append(Listing(variant.name, f"{file.relative_to(ROOT).as_posix()}:{line}", source))
    return found


def _figures(task: Task, shown: Collection[str]) -> list[str]:
    """What the comparison in a child process measured, or why it did not."""
    from .limited import run_limited
    from .speed import Timing

    with tempfile.TemporaryDirectory(prefix="tiny-llm-") as folder:
        file = Path(folder, "timings")
        file.touch()
        why = run_limited("speed", [task.id, str(file)], Limits.seconds, Limits.memory)
        timings = [Timing(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    if not timings:
        return [f"Speed: not measured, {why or 'nothing was timed'}."]
    mine, *others = timings
    if mine.failed:
        return [f"Speed: not measured, {mine.failed}."]
    rows = [("yours", mine), *((other.name, other) for other in others if other.name in shown)]
    kind = "CPU, float32" if mine.inputs.startswith("arrays") else "CPU"
    foot = [
        f"On {mine.inputs} ({kind}, {mine.runs} runs in turns; ours takes {mine.seconds * 1e3:.3g} ms).",
        f"Within {SAME * 100:.0f} % counts as the same. The code of earlier tasks is ours on both sides.",
    ]
    return ["Speed and memory, where ours is 1:", *_table(rows, mine), *foot, *([f"Stopped: {why}."] if why else [])]


def _table(rows: Sequence[tuple[str, "Timing"]], first: "Timing") -> list[str]:
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, timing in rows:
        if timing.failed:
            lines.append(f"  {name:<{width}}  {timing.failed}")
            continue
        parts = [f"time {_number(timing.ratio)} ({_time_words(timing)})", *_memory(timing)]
        if timing.inputs != first.inputs:
            parts.append(f"on {timing.inputs}")
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
