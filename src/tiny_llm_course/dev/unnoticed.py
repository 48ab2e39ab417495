"""`dev slips`: what a learner could get wrong and no check would notice.

Some slips change nothing that can be seen, or nothing that a docstring promises. The others are holes in the tests.
"""

import contextlib
from collections import Counter
from collections.abc import Sequence

import pytest

from ..course.entities import Task
from ..grading.plugin import ABSENT, run_again
from ..terminal.screen import say
from ..testkit.changed_programs import Overtime, folder_apart, installed_for, slips_of
from .proof import Proof, Prover

SECONDS = 20.0  # for all checks of a slip


class SlipProver(Prover):
    """The same loop over the slips of the solution: those that pass all checks are the problems."""

    def _prove(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        items = [item for item in items if ABSENT not in item.stash]
        if task.id not in self.variants or not task.target.is_python:
            return
        catches: Counter[pytest.Function] = Counter()
        for slip, program in slips_of(task):
            catcher: pytest.Function | None = items[0]  # of one that never ends
            promising = sorted(items, key=lambda item: -catches[item])
            with contextlib.suppress(Overtime), folder_apart(), installed_for(SECONDS, task, program):
                catcher = next((item for item in promising if not run_again(item)), None)
            proof.wrong += 1
            proof.caught += catcher is not None
            if catcher:
                catches[catcher] += 1
            else:
                proof.problems.append(f"{slip.kind}: {' -> '.join(slip.edit)}")


def main(tasks: Sequence[Task]) -> int:
    """Print the slips of a day's tasks that no check notices."""
    prover = SlipProver(tasks)
    prover.run()
    for proof in prover.proofs.values():
        for problem in proof.problems:
            say(f"{proof.task}: {problem}")
        say(f"{proof.task}: {proof.caught} of {proof.wrong} slips are noticed")
    return 0
