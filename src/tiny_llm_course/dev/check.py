"""`dev check`: the course proves itself (what it must prove is DESIGN's section 5, and CONTRIBUTING.md in short)."""

import dataclasses
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from ..course.nouns import Day
from ..course.places import day_files, name_of, registry_path, variants_path
from ..course.registry import load_course
from ..course.requirements import in_words, missing
from ..paths import LEARNER, SOLUTION
from ..source.languages import language_of_target
from ..source.package import differences
from ..terminal.screen import say
from . import kept, lacking, transcripts
from .book import current
from .planted import Claims, claims_of
from .proof import Proof, prove_day
from .refresh import scenarios_of

LEAST_WRONG, LEAST_ACCEPTED, HINTS = 4, 1, 3


def main(days: Sequence[Day], as_json: bool, fresh: bool = False) -> int:
    """Check some days; print the problems and one line of counts, or the table; exit code 1 if there is a problem.

    Days whose proof is kept are not proven again, unless all is to be `fresh`.
    """
    started = time.monotonic()
    problems: list[str] = []
    proofs: list[Proof] = []
    claims: list[Claims] = []
    # Each day in a process of its own: they share nothing, and there is more than one core. The longest first, so that
    # none is left over at the end.
    kept_ones = {} if fresh else {day: proven for day in days if (proven := kept.look_up(day))}
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        longest_first = sorted(days, key=_size, reverse=True)
        checked = {day: pool.submit(_check_day, day, kept_ones.get(day)) for day in longest_first}
        generated = _stub_problems() + _listing_problems(days, fresh)
        for day in days:
            found, its_proofs, its_claims = checked[day].result()
            proofs += its_proofs
            claims += its_claims
            problems += found
    problems += generated
    _add_missing(proofs)
    problems += [f"{proof.task}: {problem}" for proof in proofs for problem in proof.problems]
    for of in claims:
        file = name_of(variants_path(load_course().task(of.task)))
        problems += [f"{of.task}: {problem} ({file})" for problem in of.problems]
    if as_json:
        tasks = [dataclasses.asdict(proof) for proof in proofs]
        print(json.dumps({"problems": problems, **_figures(proofs, claims), "tasks": tasks}, indent=1))
        return bool(problems)
    for problem in problems:
        say(problem, colour="red")
    say(_summary(proofs, claims, problems))
    again = f"; {len(kept_ones)} of {len(days)} days as proven before (--fresh proves them again)" if kept_ones else ""
    say(f"({time.monotonic() - started:.0f} s{again})")
    return bool(problems)


def _check_day(day: Day, proven: kept.Proven | None) -> tuple[list[str], list[Proof], list[Claims]]:
    """A day's problems, the proofs of its tasks, and what the diagnosis claims of them; the latter may be kept."""
    stops = lacking.for_the_proof(day)
    problems = [*stops, *lacking.for_the_book(day), *_transcript_problems(day)]
    if stops:
        return problems, [], []
    if proven is None:
        prover = prove_day(day)
        problems += [f"{day.name}: {orphan}" for orphan in prover.orphans]
        proven = list(prover.proofs.values()), claims_of(day, prover.variants)
        if not prover.orphans:
            kept.keep(day, proven)
    return problems, *proven


def _size(day: Day) -> int:
    return sum(file.stat().st_size for file in day_files(day) if file.is_file())


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
            "pairs": total(claims, "pairs"),
            "both_named": total(claims, "both_named"),
            "one_named": total(claims, "one_named"),
            "false_claims": total(claims, "false_claims"),
        },
    }


def _summary(proofs: list[Proof], claims: list[Claims], problems: list[str]) -> str:
    p, c = partial(total, proofs), partial(total, claims)
    return (
        f"{len(proofs)} task{'s' * (len(proofs) != 1)}, {p('checks')} checks: {p('fail_on_stub')} fail on the stubs, "
        f"{p('pass_on_solution')} pass on the solution; {p('wrong')} wrong programs: {p('caught')} caught, "
        f"{p('named')} named; {c('caught')} faults seen by later tasks: {c('traced')} traced; "
        f"{c('two_mistakes')} programs with two mistakes: {c('false_claims')} false claims; {c('pairs')} of them "
        f"in one task: {c('both_named')} named in full, {c('one_named')} in one case, "
        f"{c('pairs') - c('both_named') - c('one_named')} not; "
        f"{p('accepted_pass')} of {p('accepted')} accepted programs pass; {_not_proven(proofs)}"
        f"{len(problems)} problem{'s' * (len(problems) != 1)}"
    )


def _not_proven(proofs: list[Proof]) -> str:
    """What is left for another machine: `12 checks not proven here: need Metal; `."""
    if not (absent := total(proofs, "absent")):
        return ""
    uncaught = total(proofs, "uncaught")
    programs = f" and {uncaught} wrong program{'s' * (uncaught > 1)}" if uncaught else ""
    words = in_words(word for proof in proofs for word in proof.missing)
    return f"{absent} check{'s' * (absent > 1)}{programs} not proven here: need {words}; "


def _stub_problems() -> list[str]:
    """The committed stubs are the generated ones; signatures and docstrings are the solution's."""
    course = load_course()
    try:
        found = [f"src/tiny_llm/{line} (pdm run dev stubs)" for line in differences(SOLUTION, LEARNER, course)]
    except ValueError as error:  # a target that is not there
        return [f"solutions/tiny_llm: {error}"]
    for task in course.tasks():
        target, language = task.target, language_of_target(task.target)
        if not (LEARNER / target.file).exists():
            continue
        texts = [(folder / target.file).read_text(encoding="utf-8") for folder in (SOLUTION, LEARNER)]
        ours, theirs = (language.signatures(text, target.name) for text in texts)
        # A class's private methods are dropped from the stub; all else that belongs to the target must agree.
        names = [name for name in theirs if ours.get(name) != theirs[name]]
        found += [f"{task.id}: {name} has another signature or docstring (pdm run dev stubs)" for name in names]
    return found


def _listing_problems(days: Sequence[Day], fresh: bool) -> list[str]:
    """The generated parts of the book that the days show are what would be generated, and can be."""
    try:
        return current.differences(None if len(days) == len(load_course().days()) else current.names_for(days), fresh)
    except (OSError, ValueError) as error:  # a file or a target is not there, or a quiz's known mistake
        return [f"book/src/generated cannot be made: {error}"]


def _transcript_problems(day: Day) -> list[str]:
    """What the chapter and its quiz show is what the commands print."""
    return [f"{day.name}: {line}" for scenario in scenarios_of(day) for line in transcripts.differences(scenario)]


def _add_missing(proofs: list[Proof]) -> None:
    """What every task must have."""
    for proof in proofs:
        task = load_course().task(proof.task)
        programs, registry = name_of(variants_path(task)), name_of(registry_path(task.week))
        for number, least, what in (
            (proof.wrong, LEAST_WRONG, "wrong"),
            (proof.accepted, LEAST_ACCEPTED, "accepted"),
        ):
            if number < least and not missing(task.requires):
                several = "program" + "s" * (number != 1)
                proof.problems.append(f"{number} {what} {several}, at least {least} are needed ({programs})")
        if len(task.hints) != HINTS or not all(task.hints):
            proof.problems.append(f"{len(task.hints)} hints, {HINTS} are needed ({registry})")
        if task.minutes < 1 or not 1 <= task.difficulty <= 5:
            proof.problems.append(f"minutes must be at least 1, and the difficulty 1 to 5 ({registry})")
