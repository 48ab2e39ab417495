"""Proves the tests: runs a task's own tests on the stub, the solution and every known program, in one process.

The solution is the graded package throughout. Program after program takes the place of a task's target, and pytest's
own protocol runs the same collected tests on each.
"""

import contextlib
import dataclasses
import time
from collections import Counter

import pytest
from _pytest.runner import runtestprotocol

from .day_files import tests_path, variants_path
from .packages import installed, load_package, program
from .paths import LEARNER
from .plugin import TASK, TRAPS
from .registry import Day, Task
from .variants import load_variants

STUB_NAME = "tiny_llm_stub"
SECONDS = pytest.StashKey[float]()  # that a test takes on the solution


@dataclasses.dataclass
class Proof:
    """What was found about one task; it holds if `problems` is empty."""

    task: str
    checks: int = 0
    fail_on_stub: int = 0
    pass_on_solution: int = 0
    wrong: int = 0
    caught: int = 0
    named: int = 0  # as what it is, and as nothing else
    named_at_all: int = 0
    named_as_one: int = 0
    named_rightly: int = 0
    accepted: int = 0
    accepted_pass: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)


class Prover:
    """A pytest plugin that replaces the loop over the tests."""

    def __init__(self, day: Day) -> None:
        self.proofs = {task.id: Proof(task.id) for task in day.tasks}
        self.orphans: list[str] = []
        self._day = day
        self.variants = load_variants(day)
        unknown = self.variants.tasks() - self.proofs.keys()
        self.orphans += [f"a variant or probe of {task}" for task in sorted(unknown)]
        self._items: dict[str, list[pytest.Function]] = {task.id: [] for task in day.tasks}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Prove each task of the day."""
        session.config.stash[TRAPS].guard(variants_path(self._day))
        for item in session.items:
            assert isinstance(item, pytest.Function)
            if TASK in item.stash:
                self._items[item.stash[TASK].id].append(item)
            else:
                self.orphans.append(item.name)
        for task in self._day.tasks:
            self._prove(task, self.proofs[task.id], self._items[task.id])
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport | None:
        """Only that a check failed is of interest: pytest's traceback of it takes longer than most checks."""
        if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return None
        assert call.when != "collect"
        return pytest.TestReport(item.nodeid, item.location, {}, "failed", None, call.when)

    def _prove(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        proof.checks = len(items)
        if not items:
            proof.problems.append(f"no test is named test_{task.tests}_...")
        unsolved = []
        for item in items:
            started = time.process_time()
            if fails(item):
                unsolved.append(item.name)
            item.stash[SECONDS] = time.process_time() - started
        proof.pass_on_solution = len(items) - len(unsolved)
        proof.problems += [f"{name} fails on the solution" for name in unsolved]
        self._prove_stub(task, proof, items)
        self._prove_wrong(task, proof, items)
        for variant in self.variants.accepted_of(task.id):
            proof.accepted += 1
            with installed(task.targets[0], variant.program):
                failing = [item.name for item in items if fails(item)]
            proof.accepted_pass += not failing
            proof.problems += [f"{name} fails on the accepted program {variant.name}" for name in failing]
            if self.variants.mistakes(task, variant.program):
                proof.problems.append(f"the accepted program {variant.name} is named as a mistake")

    def _prove_stub(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        load_package(STUB_NAME, LEARNER)
        with contextlib.ExitStack() as stack:
            for target in task.targets:
                stack.enter_context(installed(target, program(target, STUB_NAME)))
            passing = [item.name for item in items if not fails(item)]
        proof.problems += [f"{name} passes on the stub" for name in passing]
        proof.fail_on_stub = len(items) - len(passing)

    def _prove_wrong(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        catches: Counter[pytest.Function] = Counter()
        for variant in self.variants.wrong_of(task.id):
            proof.wrong += 1
            # One test that fails is enough: first the quick ones, and those that have caught the most so far.
            promising = sorted(items, key=lambda item: item.stash[SECONDS] / (1 + catches[item]))
            with installed(task.targets[0], variant.program):
                catcher = next((item for item in promising if fails(item)), None)
                if catcher:
                    proof.caught += 1
                    catches[catcher] += 1
                else:
                    proof.problems.append(f"the wrong program {variant.name} passes all tests")
            names = [v.name for v in self.variants.mistakes(task, variant.program)]
            proof.named_at_all += bool(names)
            proof.named_as_one += len(names) == 1
            proof.named_rightly += variant.name in names
            if names == [variant.name]:
                proof.named += 1
            else:
                proof.problems.append(f"the wrong program {variant.name} is named {' and '.join(names) or 'nothing'}")


def fails(item: pytest.Function) -> bool:
    """Run one collected test again, from fresh fixtures."""
    item._initrequest()
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def prove_day(day: Day) -> Prover:
    """Run the proof of a day in this process."""
    prover = Prover(day)
    file = tests_path(day)
    # Without the terminal plugin: what fails here fails on purpose.
    status = pytest.main([str(file), "--solution", "-p", "no:terminal", "-p", "no:cacheprovider"], plugins=[prover])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        prover.orphans.append(f"pytest could not run {file.name} (exit code {int(status)})")
    return prover
