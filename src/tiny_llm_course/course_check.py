"""`dev check`: the course proves itself (what it must prove is DESIGN's section 5, and CONTRIBUTING.md in short)."""

import dataclasses
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from . import listings, stubs, transcripts
from .paths import BOOK, LEARNER, SOLUTION
from .proof import Proof, prove_day
from .registry import Day, load_course
from .report import say

LEAST_WRONG, LEAST_ACCEPTED, HINTS = 4, 1, 3


def main(days: Sequence[Day], as_json: bool) -> int:
    """Check some days; print the problems and one line of counts, or the table; exit code 1 if there is a problem."""
    started = time.monotonic()
    problems = _stub_problems() + listings.differences()
    proofs: list[Proof] = []
    # Each day in a process of its own: they share nothing, and there is more than one core.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for day, (found, proven) in zip(days, pool.map(_check_day, days), strict=True):
            proofs += proven
            problems += [f"week {day.week}, day {day.number}: {problem}" for problem in found]
    _add_missing(proofs)
    problems += [f"{proof.task}: {problem}" for proof in proofs for problem in proof.problems]
    if as_json:
        say(json.dumps({"problems": problems, "tasks": [dataclasses.asdict(proof) for proof in proofs]}, indent=1))
        return bool(problems)
    for problem in problems:
        say(problem, colour="red")
    say(_summary(proofs, problems))
    say(f"({time.monotonic() - started:.0f} s)")
    return bool(problems)


def _check_day(day: Day) -> tuple[list[str], list[Proof]]:
    """A day's problems, and the proofs of its tasks."""
    prover = prove_day(day)
    return _day_problems(day) + [f"{test} grades no task" for test in prover.orphans], list(prover.proofs.values())


def _summary(proofs: list[Proof], problems: list[str]) -> str:
    def total(key: str) -> int:
        return sum(getattr(proof, key) for proof in proofs)

    return (
        f"{len(proofs)} tasks, {total('checks')} checks: {total('fail_on_stub')} fail on the stubs, "
        f"{total('pass_on_solution')} pass on the solution; {total('wrong')} wrong programs: {total('caught')} caught, "
        f"{total('named')} named; {total('accepted_pass')} of {total('accepted')} accepted programs pass; "
        f"{len(problems)} problem{'s' * (len(problems) != 1)}"
    )


def _stub_problems() -> list[str]:
    """The committed stubs are the generated ones; signatures and docstrings are the solution's."""
    course = load_course()
    found = [f"src/tiny_llm/{line} (pdm run dev stubs)" for line in stubs.differences(SOLUTION, LEARNER, course)]
    for task in course.tasks():
        for target in task.targets:
            file = target.module.replace(".", "/") + ".py"
            if not (LEARNER / file).exists():
                continue
            texts = [(folder / file).read_text(encoding="utf-8") for folder in (SOLUTION, LEARNER)]
            ours, theirs = map(stubs.signatures, texts)
            if target.name not in ours:
                found.append(f"{task.id}: {target} is not in the solution")
                continue
            # A class's private methods are dropped from the stub; all else that belongs to the target must agree.
            names = [n for n in theirs if n == target.name or n.startswith(f"{target.name}.")]
            found += [f"{task.id}: {n} has another signature or docstring" for n in names if ours.get(n) != theirs[n]]
    return found


def _day_problems(day: Day) -> list[str]:
    """The chapter exists, and the outputs that it shows are what the commands print."""
    chapter = BOOK / "src" / day.chapter
    if not chapter.exists():
        return [f"there is no chapter {day.chapter}"]
    text = chapter.read_text(encoding="utf-8")
    shown = [scenario for scenario in transcripts.scenarios() if f"transcripts/{scenario.name}.txt" in text]
    return [line for scenario in shown for line in transcripts.differences(scenario)]


def _add_missing(proofs: list[Proof]) -> None:
    """What every task must have."""
    for proof in proofs:
        task = load_course().task(proof.task)
        if proof.wrong < LEAST_WRONG:
            proof.problems.append(f"{proof.wrong} wrong programs, at least {LEAST_WRONG} are needed")
        if proof.accepted < LEAST_ACCEPTED:
            proof.problems.append(f"{proof.accepted} accepted programs, at least {LEAST_ACCEPTED} are needed")
        if len(task.hints) != HINTS or not all(task.hints):
            proof.problems.append(f"{len(task.hints)} hints, {HINTS} are needed")
        if task.minutes < 1 or not 1 <= task.difficulty <= 5:
            proof.problems.append("minutes must be at least 1, and the difficulty 1 to 5")
