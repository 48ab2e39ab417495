"""`dev check`: the course proves itself (what it must prove is DESIGN's section 5, and CONTRIBUTING.md in short)."""

import dataclasses
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from . import listings, stubs, transcripts
from .day_files import must_be_there, variants_path
from .paths import BOOK, LEARNER, SOLUTION
from .planted import Claims, claims_of
from .proof import Proof, prove_day
from .registry import Day, load_course
from .screen import say

LEAST_WRONG, LEAST_ACCEPTED, HINTS = 4, 1, 3


def main(days: Sequence[Day], as_json: bool) -> int:
    """Check some days; print the problems and one line of counts, or the table; exit code 1 if there is a problem."""
    started = time.monotonic()
    for day in days:
        must_be_there(day)
    proofs: list[Proof] = []
    claims: list[Claims] = []
    # Each day in a process of its own: they share nothing, and there is more than one core. The longest first, so that
    # none is left over at the end.
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        longest_first = sorted(days, key=lambda day: variants_path(day).stat().st_size, reverse=True)
        checked = {day: pool.submit(_check_day, day) for day in longest_first}
        problems = _stub_problems() + listings.differences()
        for day in days:
            found, its_proofs, its_claims = checked[day].result()
            proofs += its_proofs
            claims += its_claims
            problems += [f"week {day.week}, day {day.number}: {problem}" for problem in found]
    _add_missing(proofs)
    found_out: list[Proof | Claims] = [*proofs, *claims]
    problems += [f"{of.task}: {problem}" for of in found_out for problem in of.problems]
    if as_json:
        tasks = [dataclasses.asdict(proof) for proof in proofs]
        print(json.dumps({"problems": problems, **_figures(proofs, claims), "tasks": tasks}, indent=1))
        return bool(problems)
    for problem in problems:
        say(problem, colour="red")
    say(_summary(proofs, claims, problems))
    say(f"({time.monotonic() - started:.0f} s)")
    return bool(problems)


def _check_day(day: Day) -> tuple[list[str], list[Proof], list[Claims]]:
    """A day's problems, the proofs of its tasks, and what the diagnosis claims of them."""
    prover = prove_day(day)
    problems = _day_problems(day) + [f"{test} grades no task" for test in prover.orphans]
    return problems, list(prover.proofs.values()), claims_of(day, prover.variants)


def total(found: Sequence[Proof | Claims], key: str) -> int:
    """The sum over all tasks."""
    return sum(getattr(of, key) for of in found)


def _figures(proofs: list[Proof], claims: list[Claims]) -> dict[str, dict[str, int]]:
    """How well mistakes are named, and faults of earlier tasks traced."""
    return {
        "naming": {
            "wrong": total(proofs, "wrong"),
            "named": total(proofs, "named_at_all"),
            "unique": total(proofs, "named_as_one"),
            "correct": total(proofs, "named_rightly"),
        },
        "culprits": {key: total(claims, key) for key in ("planted", "caught", "traced", "wrong_claims")},
        "two_mistakes": {
            "programs": total(claims, "two_mistakes"),
            "false_claims": total(claims, "false_claims"),
        },
    }


def _summary(proofs: list[Proof], claims: list[Claims], problems: list[str]) -> str:
    p, c = partial(total, proofs), partial(total, claims)
    return (
        f"{len(proofs)} tasks, {p('checks')} checks: {p('fail_on_stub')} fail on the stubs, "
        f"{p('pass_on_solution')} pass on the solution; {p('wrong')} wrong programs: {p('caught')} caught, "
        f"{p('named')} named; {c('caught')} faults seen by later tasks: {c('traced')} traced; "
        f"{c('two_mistakes')} programs with two mistakes: {c('false_claims')} false claims; "
        f"{p('accepted_pass')} of {p('accepted')} accepted programs pass; "
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
