"""Known programs in chapters: diffs of mistakes, and how many programs each step of an open task's check stops."""

import difflib
import re
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ...course.entities import Day, Task
from ...course.registry import load_course
from ...course.requirements import missing
from ...programs.patched import source_of
from ...testkit.judging import check_verdicts
from ...testkit.variants import load_variants
from ..transcripts import scenarios
from .parts import Parts, present

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


class Count(NamedTuple):
    """How many of the known programs a check judges correctly."""

    stopped: int
    wrong: int
    passed: int
    right: int

    def __str__(self) -> str:
        wrong = f"{self.stopped} of {self.wrong} wrong programs are stopped"
        return f"{wrong}, {self.passed} of {self.right} right ones pass"


def check_steps(task: Task, steps: Mapping[str, str]) -> Parts:
    """Return each step's check and how many programs it stops; without the requirements, the last generated counts."""
    day = load_course().day_of(task).name
    counts = {
        name: present(day, name) if missing(task.requires) else f"**{count_programs(task, text)}.**\n"
        for name, text in ((f"{step}-count", text) for step, text in steps.items())
    }
    return {name: f"```python\n{text}```\n" for name, text in steps.items()} | counts


def count_programs(task: Task, text: str) -> Count:
    """Run the check that a text defines on the known programs of the task for which the check is written."""
    names: dict[str, Any] = {"mx": mx}
    exec(text, names)
    mx.random.seed(0)
    passes: list[bool] = np.array(check_verdicts(names[task.target.name], task.judges) > 0).tolist()
    wrong = len(load_variants(load_course().task(task.judges)).wrong_programs)
    return Count(passes[-wrong:].count(False), wrong, sum(passes[:-wrong]), len(passes) - wrong)
