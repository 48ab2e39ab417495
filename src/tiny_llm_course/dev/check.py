"""`dev check`: the course proves itself (what it must prove is DESIGN's section 5, and CONTRIBUTING.md in short)."""

import dataclasses
import faulthandler
import json
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from ..course.entities import Day, Task
from ..course.file_paths import name_of, registry_path, variants_path
from ..course.registry import load_course
from ..course.requirements import in_words, missing
from ..course.selection import by_day
from ..doctor.git import ask_git
from ..paths import LEARNER, SOLUTION, TESTS
from ..source.languages import language_of_target
from ..source.package import differences
from ..terminal.screen import say
from . import completeness, proof_store, transcripts
from .book import current
from .fault_injection import DiagnosisScore
from .proof import Proof, Proven, prove
from .proof_inputs import files_of, left_out
from .refresh import scenarios_of

LEAST_WRONG, LEAST_ACCEPTED, HINTS = 4, 1, 3


def main(tasks: Sequence[Task], as_json: bool, fresh: bool = False, again: int = 0) -> int:
    """Check tasks and all else of their days; `again` stored proofs, chosen by the commit, must come out as before."""
    started = time.monotonic()
    found = {} if fresh else proof_store.look_up(tasks)
    chosen = random.Random(ask_git("rev-parse", "HEAD").stdout).sample(list(found), min(again, len(found)))
    to_prove = [task for task in tasks if task not in found or task in chosen]
    problems: list[str] = []
    new: dict[Task, Proven] = {}
    to_keep: list[Task] = []
    # The longest days start first, so that none is left at the end.
    days = by_day(tasks)
    provable = {day: [] if completeness.for_the_proof(day) else [t for t in its if t in to_prove] for day, its in days}
    # One more than there are cores: some days wait for servers and other processes.
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        read = {day: {file for task in its for file in files_of(task)} for day, its in provable.items() if its}
        size = {day: sum(file.stat().st_size for file in of if file.is_relative_to(TESTS)) for day, of in read.items()}
        proving = {day: pool.submit(_prove_alone, provable[day]) for day in sorted(size, key=lambda day: -size[day])}
        problems += _stub_problems() + _listing_problems([day for day, _ in days], fresh)
        for day, _ in days:
            problems += [*completeness.for_the_proof(day), *completeness.for_the_book(day)]
        problems += _transcript_problems([day for day, _ in days], fresh)
        for day in (day for day, _ in days if day in proving):
            try:
                proven, others, opened = proving[day].result()
            except BrokenProcessPool:
                problems.append(f"{day.name}: the process that proves it was killed, or crashed as printed above")
                continue
            uncovered = left_out(opened, provable[day])
            others += [f"the proof opens {name_of(file)}, which its key does not cover" for file in uncovered]
            problems += [f"{day.name}: {problem}" for problem in others]
            new |= {task: proven[task.id] for task in provable[day]}
            to_keep += [task for task in provable[day] if not others and task not in chosen]
    for task in (task for task in chosen if task in new and new[task] != found[task].proven):
        name = name_of(proof_store.path(task.week))
        problems.append(f"{task.id}: {_difference(found[task].proven, new[task])}, not as on {found[task].on} ({name})")
    proof_store.keep({task: new[task] for task in to_keep}, date.today().isoformat())
    known = {task: each.proven for task, each in found.items()} | new
    proven_tasks = [known[task] for task in tasks if task in known]
    for each in proven_tasks:
        problems += [f"{each.proof.task}: {problem}" for problem in [*each.problems, *_missing_of(each.proof)]]
    proofs, claims = [each.proof for each in proven_tasks], [each.claims for each in proven_tasks]
    if as_json:
        table = [dataclasses.asdict(proof) for proof in proofs]
        print(json.dumps({"problems": problems, **_figures(proofs, claims), "tasks": table}, indent=1))
        return bool(problems)
    for problem in problems:
        say(problem, color="red")
    say(_summary(proofs, claims, problems))
    origin = f"{len(new)} proven now"  # after: 118 of 120 tasks as proven on 2026-12-02,
    if dates := [found[task].on for task in found if task not in chosen]:
        when = f"on {dates[0]}" if len(set(dates)) == 1 else f"from {min(dates)} to {max(dates)}"
        origin = f"{len(dates)} of {len(dates) + len(new)} tasks as proven {when}, {origin}"
    say(f"({time.monotonic() - started:.0f} s; {origin})")
    return bool(problems)


def _prove_alone(tasks: Sequence[Task]) -> tuple[dict[str, Proven], list[str], set[Path]]:
    """Prove a day in a process of its own: days share nothing, and a crash costs one day."""
    with ProcessPoolExecutor(1, get_context("spawn"), faulthandler.enable) as process:
        return process.submit(prove, tasks).result()


def _difference(before: Proven, after: Proven) -> str:
    """Return what differs between two proofs of one task: `both_named is 14 instead of 15`."""
    old, new = ({**vars(proven.claims), **vars(proven.proof)} for proven in (before, after))
    return ", ".join(f"{name} is {new[name]} instead of {old[name]}" for name in new if new[name] != old[name])


def total(found: Sequence[Proof | DiagnosisScore], key: str) -> int:
    """Return the sum of an attribute over all tasks."""
    return sum(getattr(of, key) for of in found)


def _figures(proofs: list[Proof], claims: list[DiagnosisScore]) -> dict[str, dict[str, int]]:
    naming = {"wrong": "wrong", "named": "named_at_all", "unique": "named_as_one", "correct": "named_rightly"}
    both = {"programs": "two_mistakes"} | {key: key for key in ("pairs", "both_named", "one_named", "false_claims")}
    return {
        "naming": {key: total(proofs, of) for key, of in naming.items()},
        "culprits": {key: total(claims, key) for key in ("planted", "caught", "traced", "wrong_claims")},
        "two_mistakes": {key: total(claims, of) for key, of in both.items()},
    }


def _summary(proofs: list[Proof], claims: list[DiagnosisScore], problems: list[str]) -> str:
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
    """Return what is left for another machine: `12 checks not proven here: need Metal; `."""
    if not (absent := total(proofs, "absent")):
        return ""
    uncaught = total(proofs, "uncaught")
    programs = f" and {uncaught} wrong program{'s' * (uncaught > 1)}" if uncaught else ""
    words = in_words(word for proof in proofs for word in proof.missing)
    return f"{absent} check{'s' * (absent > 1)}{programs} not proven here: need {words}; "


def _stub_problems() -> list[str]:
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
        # A class's private methods are dropped from the stub; everything else of the target must agree.
        names = [name for name in theirs if ours.get(name) != theirs[name]]
        found += [f"{task.id}: {name} differs in signature or docstring (pdm run dev stubs)" for name in names]
    return found


def _listing_problems(days: Sequence[Day], fresh: bool) -> list[str]:
    try:
        return current.differences(None if len(days) == len(load_course().days()) else current.names_for(days), fresh)
    except (OSError, ValueError) as error:  # a missing file, target, or known mistake of a quiz
        return [f"book/src/generated cannot be generated: {error}"]


def _transcript_problems(days: Sequence[Day], fresh: bool) -> list[str]:
    shown = [(day, scenario) for day in days for scenario in scenarios_of(day)]
    known = {} if fresh else transcripts.known()
    to_play = [(day, scenario) for day, scenario in shown if known.get(scenario.name) != transcripts.state(scenario)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each is played by processes of its own
        differing = list(pool.map(lambda one: _differences(one[1]), to_play))
    played = list(zip(to_play, differing, strict=True))
    if as_recorded := [scenario for (_, scenario), lines in played if not lines]:
        transcripts.keep(as_recorded)
    return [f"{day.name}: {line}" for (day, _), lines in played for line in lines]


def _differences(scenario: transcripts.Scenario) -> list[str]:
    try:
        return transcripts.differences(scenario)
    except ValueError as error:  # an edit that no longer fits
        return [f"{error} (book/transcripts/scenarios.toml)"]


def _missing_of(proof: Proof) -> list[str]:
    """Return the programs, hints and numbers that every task must have and this one lacks."""
    task, found = load_course().task(proof.task), []
    programs, registry = name_of(variants_path(task)), name_of(registry_path(task.week))
    for number, least, what in ((proof.wrong, LEAST_WRONG, "wrong"), (proof.accepted, LEAST_ACCEPTED, "accepted")):
        if number < least and not missing(task.requires):
            several = "program" + "s" * (number != 1)
            found.append(f"{number} {what} {several}, at least {least} are needed ({programs})")
    if len(task.hints) != HINTS or not all(task.hints):
        found.append(f"{len(task.hints)} hints, {HINTS} are needed ({registry})")
    if task.minutes < 1 or not 1 <= task.difficulty <= 5:
        found.append(f"minutes must be at least 1, and the difficulty 1 to 5 ({registry})")
    return found
