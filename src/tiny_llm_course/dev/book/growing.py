"""The check in the chapter of an open task, as it grows line by line, and what it stops at each step, counted here."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ...course.nouns import Task
from ...course.registry import load_course
from ...course.requirements import missing
from ...testkit.judging import let_through
from ...testkit.variants import load_variants
from .parts import Parts, present


class Count(NamedTuple):
    """How many of the known programs a check treats as it should."""

    stopped: int
    wrong: int
    passed: int
    right: int

    def __str__(self) -> str:
        wrong = f"{self.stopped} of {self.wrong} wrong programs are stopped"
        return f"{wrong}, {self.passed} of {self.right} right ones pass"


def grown(task: Task, steps: Mapping[str, str]) -> Parts:
    """The check of each step, by its name, and what it stops; what this machine cannot count stays as it is."""
    day = load_course().day_of(task).name
    counts = {
        name: present(day, name) if missing(task.requires) else f"**{counted(task, text)}.**\n"
        for name, text in ((f"{step}-count", text) for step, text in steps.items())
    }
    return {name: f"```python\n{text}```\n" for name, text in steps.items()} | counts


def counted(task: Task, text: str) -> Count:
    """What the check that a text defines makes of the programs of the task that an open task judges."""
    names: dict[str, Any] = {"mx": mx}
    exec(text, names)
    mx.random.seed(0)
    passes: list[bool] = np.array(let_through(names[task.target.name], task.judges) > 0).tolist()
    wrong = len(load_variants(load_course().task(task.judges)).wrong_programs)
    return Count(passes[-wrong:].count(False), wrong, sum(passes[:-wrong]), len(passes) - wrong)
