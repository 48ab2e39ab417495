"""Prove the tests: run a task's own tests on the stub, the solution and every known program, in one process.

The graded package is the solution throughout. Each program in turn replaces a task's target, and pytest's own protocol
runs the same collected tests.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from ..course.entities import Task
from ..course.file_paths import name_of, registry_path, tests_path, tests_paths, variants_path
from ..course.registry import load_course
from ..course.requirements import missing
from ..grading.build import build_for
from ..grading.guard import Guard
from ..grading.plugin import ABSENT, GUARD, TASK, TRAPS, required, run_again
from ..paths import LEARNER, SOLUTION
from ..programs import kernels
from ..programs.packages import SOLUTION_NAME, installed, load_package, program
from ..source.edits import DoesNotApply
from ..testkit.memo import memoizing
from ..testkit.naming import mistakes
from ..testkit.outcomes import Stopped
from ..testkit.variants import Variants, load_variants
from .fault_injection import DiagnosisScore, buildable, score_diagnoses
from .file_trace import traced_files
from .repeating import equals, repeats

STUB_NAME = "tiny_llm_stub"
SECONDS = pytest.StashKey[float]()  # CPU time of a test on the solution
MOST_SECONDS = 2.0


@dataclasses.dataclass
class Proof:
    """What was found about one task; it holds if `problems` is empty."""

    task: str
    checks: int = 0
    absent: int = 0  # of these, that cannot be run here, as they need ...
    missing: list[str] = dataclasses.field(default_factory=list)  # these words of `requirements`
    uncaught: int = 0  # wrong programs that only such checks may catch
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


@dataclasses.dataclass
class Proven:
    """One task's proof by its own tests, and the score of its diagnosis."""

    proof: Proof
    claims: DiagnosisScore

    @property
    def problems(self) -> list[str]:
        """The problems of both."""
        programs = name_of(variants_path(load_course().task(self.proof.task)))
        return [*self.proof.problems, *(f"{each} ({programs})" for each in self.claims.problems)]


class Prover:
    """A pytest plugin that replaces the loop over the tests."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.proofs = {task.id: Proof(task.id) for task in tasks}
        self.orphans: list[str] = []
        self._tasks = tasks
        self.variants = {task.id: load_variants(task) for task in tasks if not missing(task.requires)}
        self._items: dict[str, list[pytest.Function]] = {task.id: [] for task in tasks}

    def run(self) -> None:
        """Build what is compiled, and let pytest collect the tests of the tasks and call the loop below."""
        for task, finding in build_for(self._tasks, [SOLUTION, LEARNER]).items():
            self.proofs[task].problems.append(finding.headline)
        # Without the terminal plugin: failures are expected here.
        options = ["--solution", "-p", "no:terminal", "-p", "no:cacheprovider"]
        status = pytest.main([*map(str, tests_paths(self._tasks)), *options], plugins=[self])
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self.orphans.append(f"its tests cannot be run (pdm run test {self._tasks[0].id} --solution)")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Prove each task."""
        for task in self._tasks:
            session.config.stash[TRAPS].guard(variants_path(task))
        for item in session.items:
            assert isinstance(item, pytest.Function)
            if TASK in item.stash:
                self._items.get(item.stash[TASK].id, []).append(item)
            else:
                self.orphans.append(f"{item.name} grades no task ({name_of(item.path)})")
        kernels.prepare(
            variant.program
            for known in self.variants.values()
            for variant in buildable([*known.wrong_programs, *known.accepted_programs, *known.ways])
        )
        # What the tests rely on is checked once for replacements: after each check it costs a sixth of a proof.
        guard, session.config.stash[GUARD] = session.config.stash[GUARD], Guard()
        for task in self._tasks:
            with memoizing():
                self._prove(task, self.proofs[task.id], self._items[task.id])
        if replaced := guard.restore():
            self.orphans.append(f"a known program replaces {replaced}, which the tests rely on")
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport | None:
        """Report only that a check failed: formatting pytest's traceback takes longer than most checks."""
        if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return None
        assert call.when != "collect"
        return pytest.TestReport(item.nodeid, item.location, {}, "failed", None, call.when)

    def _prove(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        tests = name_of(tests_path(task))
        proof.checks = len(items)
        if not items:
            proof.problems.append(f"no test is named test_{task.tests}_... ({tests})")
        elif needed := set.intersection(*(set(required(item)) for item in items)) - set(task.requires):
            registry = name_of(registry_path(task.week))
            words = ", ".join(sorted(needed))
            proof.problems.append(f"all of its checks need {words}: its `requires` must say so ({registry})")
        proof.missing = [*dict.fromkeys(word for item in items for word in item.stash.get(ABSENT, ()))]
        items = [item for item in items if ABSENT not in item.stash]
        proof.absent = proof.checks - len(items)
        if task.id not in self.variants:
            return
        unsolved = []
        for item in items:
            solved, item.stash[SECONDS] = _timed(item)
            for _ in range(2):
                if item.stash[SECONDS] > MOST_SECONDS:  # what else the machine runs can double a measurement
                    item.stash[SECONDS] = min(item.stash[SECONDS], _timed(item)[1])
            if not solved:
                unsolved.append(item.name)
            if item.stash[SECONDS] > MOST_SECONDS:
                slow = f"{item.stash[SECONDS]:.1f} s of CPU time, at most {MOST_SECONDS:.0f} are allowed"
                proof.problems.append(f"{item.name} takes {slow} ({tests})")
        proof.pass_on_solution = len(items) - len(unsolved)
        proof.problems += [f"{name} fails on the solution (pdm run test {task.id} --solution)" for name in unsolved]
        load_package(STUB_NAME, LEARNER)
        with installed(task.program, program(task.program, STUB_NAME)):
            passing = [item.name for item in items if run_again(item)]
        proof.problems += [f"{name} passes on the stub ({tests})" for name in passing]
        proof.fail_on_stub = len(items) - len(passing)
        self._prove_wrong(task, proof, items)
        variants, programs = self.variants[task.id], name_of(variants_path(task))
        proof.problems += [f"{problem} ({programs})" for problem in _size_problems(variants)]
        ends = [end for end in variants.outcomes(variants.solution) if isinstance(end, Stopped) and end.about]
        proof.problems += [f"a probe ends in a {end.kind} of the solution: {end.about} ({programs})" for end in ends]
        for variant in [*variants.accepted_programs, *variants.ways]:
            proof.accepted += 1
            with installed(task.program, variant.program):
                failing = [item.name for item in items if not run_again(item)]
            proof.accepted_pass += not failing
            proof.problems += [f"{name} fails on the accepted program {variant.name} ({programs})" for name in failing]
            if equals(variants, variant.program, variants.solution):
                continue
            if mistakes(variants, variant.program):
                proof.problems.append(f"the accepted program {variant.name} is named as a mistake ({programs})")
            elif not (variant.differs or task.judges):
                proof.problems.append(f"the accepted program {variant.name} is wrong on a probe ({programs})")

    def _prove_wrong(self, task: Task, proof: Proof, items: list[pytest.Function]) -> None:
        catches: Counter[pytest.Function] = Counter()
        variants, programs = self.variants[task.id], name_of(variants_path(task))
        for variant in [*variants.wrong_programs, *variants.in_other_words]:
            proof.wrong += 1
            try:
                wrong = variant.program
            except DoesNotApply as error:
                proof.problems.append(f"{error} ({programs})")
                continue
            # One failing test is enough: quick tests first, and those that have caught the most so far.
            promising = sorted(items, key=lambda item: item.stash[SECONDS] / (1 + catches[item]))
            with installed(task.program, wrong):
                catcher = next((item for item in promising if not run_again(item)), None)
                if catcher:
                    proof.caught += 1
                    catches[catcher] += 1
                elif proof.absent:
                    proof.uncaught += 1
                else:
                    tests = name_of(tests_path(task))
                    proof.problems.append(f"the wrong program {variant.name} passes all tests ({tests})")
            names = [mistake.name for v in mistakes(variants, variant) for mistake in v.mistakes]
            (name,) = (mistake.name for mistake in variant.mistakes)
            proof.named_at_all += bool(names)
            proof.named_as_one += len(names) == 1
            proof.named_rightly += name in names
            if names == [name]:
                proof.named += 1
            else:
                said = " and ".join(names) or "nothing"
                proof.problems.append(f"the wrong program {variant.name} is named {said} ({programs})")
            if variant in variants.wrong_programs and not repeats(variants, variant):
                proof.problems.append(f"the wrong program {variant.name} does something else each time ({programs})")


def _timed(item: pytest.Function) -> tuple[bool, float]:
    """Return whether a check passes, and the seconds of CPU time that it takes."""
    started = time.process_time()
    return run_again(item), time.process_time() - started


def _size_problems(variants: Variants) -> list[str]:
    """Report a task with nothing to time and no reason, or on whose inputs the solution fails. Nothing is timed."""
    if variants.size is None:
        return [] if variants.untimed else ["compare has nothing to time: call known.sized or known.not_timed"]
    try:
        with kernels.fast(edited=True):
            mx.eval(variants.size.build(program(variants.task.program, SOLUTION_NAME))())
    except Exception as error:
        return [f"the solution raises {type(error).__name__} on {variants.size.words}: {error}"]
    return []


def prove(tasks: Sequence[Task]) -> tuple[dict[str, Proven], list[str], set[Path]]:
    """Prove tasks of one day; return results by task, problems of no task, and the files that were opened."""
    with traced_files() as files:
        prover = Prover(tasks)
        prover.run()
        claims = score_diagnoses(tasks, prover.variants)
    proven = {task: Proven(proof, claims.get(task, DiagnosisScore(task))) for task, proof in prover.proofs.items()}
    return proven, prover.orphans, files
