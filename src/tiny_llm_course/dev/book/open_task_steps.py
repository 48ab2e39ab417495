"""The check in an open task's chapter, step by step, and how many programs each step stops."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ...course.entities import Task
from ...course.registry import load_course
from ...course.requirements import missing
from ...testkit.judging import check_verdicts
from ...testkit.variants import load_variants
from .parts import Parts, present


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
