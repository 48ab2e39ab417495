"""One of the two packages, ready to run outside of its tests: started, built, imported, with what is borrowed."""

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..course.nouns import Target
from ..course.registry import load_course
from ..grading.build import must_be_built
from ..grading.exceptions import learners_code, must_be_started
from ..learner import progress
from ..paths import LEARNER, SOLUTION, put_first
from ..programs import borrowing
from ..programs.packages import SOLUTION_NAME, load_solution
from . import stages


class Package:
    """What an engine is made of."""

    def __init__(self, solution: bool, needs: Sequence[str]) -> None:
        """Make it ready for what stands on some tasks.

        Args:
            solution: whether it is ours.
            needs: ids of the tasks.

        Raises:
            LearnerError: the learner's code is not finished, or failed.
        """
        self.package = SOLUTION if solution else LEARNER
        self.borrowed = () if solution else progress.borrowed_tasks()
        self.unproven = () if solution else stages.unproven(needs)
        self.package_name = SOLUTION_NAME if solution else "tiny_llm"
        must_be_started(self.unproven, self.package)
        must_be_built([load_course().task(task) for task in needs], self.package)
        if solution:
            load_solution()
        else:
            put_first(LEARNER)
            borrowing.install(self.borrowed)

    def target(self, target: Target) -> Any:
        """A class or a function by what the registry calls it."""
        return self.part(target.module, target.name)

    def part(self, module: str, name: str) -> Any:
        """The same by its module inside the package and its name."""
        return getattr(importlib.import_module(f"{self.package_name}.{module}"), name)

    def learners_code(self) -> AbstractContextManager[None]:
        """What the package raises becomes a LearnerError."""
        return learners_code(self.package)
