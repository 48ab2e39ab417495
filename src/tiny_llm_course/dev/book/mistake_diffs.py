"""Diffs of known mistakes, for the chapters that put them into the engine."""

import difflib
import re
import textwrap

from ...course.entities import Day, Task
from ...programs.patched import source_of
from ...testkit.variants import load_variants
from ..transcripts import scenarios
from .parts import Parts

BETWEEN = "@"  # marks omitted lines
MISTAKE = re.compile(r"--mistake (\d+\.\d+\.\d+):(\S+)")


def mistake_parts(day: Day) -> Parts:
    """Return a diff for each mistake of the day that a recorded command puts into the engine."""
    tasks = {task.id: task for task in day.tasks}
    typed = "\n".join(line for scenario in scenarios() for line in scenario.typed)
    return {
        f"mistake-{tasks[id].number}-{name}": mistake_diff(tasks[id], name)
        for id, name in MISTAKE.findall(typed)
        if id in tasks
    }


def mistake_diff(task: Task, name: str) -> str:
    """Return a mistake's edits as a diff in Markdown; raise ValueError if the task has no such edit of the solution."""
    edits = next((known.edits for known in load_variants(task).wrong_programs if known.name == name), ())
    if not edits:
        raise ValueError(f"task {task.id} has no known mistake {name!r} that is a change of the solution")
    before, after = (source_of(task.target, some).split("\n") for some in ((), edits))
    listed = _diff(before, after, around=0)
    if {line[1:] for line in listed if line[0] == "-"} & {line[1:] for line in listed if line[0] == "+"}:
        listed = _diff(before, after, around=1)  # a moved line: show its old and new surroundings
    bare = textwrap.dedent("\n".join(line[1:] for line in listed)).split("\n")
    shown = zip(listed, bare, strict=True)
    text = "\n".join("  ..." if line == BETWEEN else f"{line[0]} {rest}".rstrip() for line, rest in shown)
    return f"```text\n{text}\n```\n"


def _diff(before: list[str], after: list[str], around: int) -> list[str]:
    """Return the differing lines with their signs and `around` lines of context."""
    lines = list(difflib.unified_diff(before, after, n=around, lineterm=""))[3:]  # without names and the first place
    return [BETWEEN if line.startswith("@@") else line for line in lines]
