"""`dev slips`: what a learner could get wrong and no check would notice.

Some slips change nothing that can be seen, or nothing that a docstring promises. The others are holes in the tests.
"""

from collections import Counter
from collections.abc import Sequence

import pytest

from ..course.entities import Task
from ..grading.plugin import ABSENT, run_again
from ..programs.packages import installed
from ..terminal.screen import say
from ..testkit.variants import slips_of
from .fault_injection import buildable
from .proof import Proof, Prover


class SlipProver(Prover):
    """The same loop over the slips of the solution: those that pass all checks are the problems."""

    def _prove(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        items = [item for item in items if ABSENT not in item.stash]
        if task.id not in self.variants or not task.target.is_python:
            return
        catches: Counter[pytest.Function] = Counter()
        for slip in buildable(slips_of(task)):
            promising = sorted(items, key=lambda item: -catches[item])
            with installed(task.program, slip.program):
                catcher = next((item for item in promising if not run_again(item)), None)
            proof.wrong += 1
            proof.caught += catcher is not None
            if catcher:
                catches[catcher] += 1
            else:
                proof.problems.append(f"{slip.name}: {' -> '.join(*slip.edits)}")


def main(tasks: Sequence[Task]) -> int:
    """Print the slips of a day's tasks that no check notices."""
    prover = SlipProver(tasks)
    prover.run()
    for proof in prover.proofs.values():
        for problem in proof.problems:
            say(f"{proof.task}: {problem}")
        say(f"{proof.task}: {proof.caught} of {proof.wrong} slips are noticed")
    return 0
