"""What a learner has tried: the attempts at each task, a line for each in `.tiny-llm/attempts/TASK.jsonl`.

An attempt is a verdict on code that is not that of the attempt before. Another verdict on the same code takes its
place, but a pass is never forgotten: what fails after it, by what it uses, is an attempt until that is mended. A line
is added in one step and read by itself, so that graders at work together, or a damaged line, cost no more than a line.
None of it leaves this machine but by `export --history`.
"""

import dataclasses
import difflib
import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..course.nouns import Task
from ..course.registry import load_course
from ..course.results import TaskResult
from ..paths import LEARNER
from ..source.code import fingerprint
from ..source.excerpts import NoSuchCode, code_of
from . import progress

KEPT = 50  # attempts of a task, the last ones, of which ...
LARGEST = 1 << 18  # ... no more than this many bytes are kept
LONGEST = 1 << 14  # characters of an attempt's code
HASH = 16  # digits of a fingerprint that tell one code from another
TOLD = 3  # mistakes that a road names


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A known mistake that was named: the name it has in the course, and what is told of it."""

    name: str
    fact: str

    @property
    def words(self) -> str:
        """The name in words: no scale, eps fixed at 1e-5."""
        return re.sub(r"(?<!\de)-", " ", self.name)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A verdict on some code of a task."""

    time: str  # ISO 8601, of when it was given, in UTC
    status: progress.Status
    headline: str  # of what was wrong
    mistakes: tuple[Mistake, ...]
    hash: str  # the beginning of the code's fingerprint
    code: str  # the target and its private helpers, without docstrings

    @property
    def local_time(self) -> str:
        """When it was, on this machine's clock."""
        return f"{datetime.fromisoformat(self.time).astimezone():%Y-%m-%d %H:%M}"


def record(results: Sequence[TaskResult]) -> bool:
    """Remember the verdicts that grading gave, and the attempts they are; whether that worked.

    A result that turns to passed is given its road.
    """
    remembered = progress.record(results)
    for result in results:
        # Where a file cannot be imported, no task in it was tried.
        if result.status not in ("passed", "failed") or not result.code or (result.finding and result.finding.place):
            continue
        before = of_task(result.task)
        if before and (before[-1].hash, before[-1].status) == (result.code[:HASH], result.status):
            continue
        if (attempt := _attempt(result)) is None:
            continue
        after = _merged([*before, attempt])
        if after[-1] is attempt and attempt.status == "passed" and before and before[-1].status == "failed":
            result.road = road(after)
        remembered = _add(result.task, attempt, after) and remembered
    return remembered


def of_task(task: Task) -> list[Attempt]:
    """The attempts at a task that are remembered, the oldest first."""
    try:
        lines = _file(task).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return _merged(filter(None, map(_read, lines)))[-KEPT:]


def tasks_tried() -> dict[Task, list[Attempt]]:
    """The tasks with attempts, in the order of the course."""
    return {task: attempts for task in load_course().tasks() if (attempts := of_task(task))}


def road(attempts: Sequence[Attempt]) -> str:
    """What a task took since it passed before, in a line: how many attempts, and the mistakes that were named.

    Nothing if the last attempt was the first.
    """
    failed = [*takewhile(lambda attempt: attempt.status == "failed", reversed(attempts[:-1]))][::-1]
    if not failed:
        return ""
    count = f"{len(failed) + 1}{' or more' * (len(attempts) == KEPT == len(failed) + 1)} attempts"
    names = [*dict.fromkeys(f'"{mistake.words}"' for attempt in failed for mistake in attempt.mistakes)]
    more = [f"{len(names) - TOLD} more"] * (len(names) > TOLD)
    first, *others = [*names[:TOLD], *more] or [""]
    then = ", then " + " and ".join(filter(None, [", ".join(others[:-1]), others[-1]])) if others else ""
    return f"{count}: {first} first{then}" if first else count


def difference(before: Attempt | None, attempt: Attempt) -> list[str]:
    """The lines in which the code of an attempt differs from that of the one before, as `diff -u` shows them.

    Where the first ones stand in a file that nobody has is left out.
    """
    old, new = (before.code if before else "").splitlines(), attempt.code.splitlines()
    return [*difflib.unified_diff(old, new, lineterm="")][3:]


def _attempt(result: TaskResult) -> Attempt | None:
    """The attempt that a verdict is; None if other code is there now."""
    try:
        code = code_of(LEARNER, result.task.target)[:LONGEST]
    except NoSuchCode:
        code = ""
    if result.code != fingerprint(result.task, LEARNER):
        return None
    named = [
        (n, fact) for claim in result.claims if not claim.here for n, fact in zip(claim.names, claim.facts, strict=True)
    ]
    return Attempt(
        datetime.now(UTC).isoformat(timespec="seconds"),
        "passed" if result.status == "passed" else "failed",
        result.finding.headline if result.finding else "",
        tuple(Mistake(*pair) for pair in dict.fromkeys(named)),
        result.code[:HASH],
        code,
    )


def _merged(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts, of several in a row with the same code the last, but a pass before it, too."""
    merged: list[Attempt] = []
    for attempt in attempts:
        kept = [attempt]
        while merged and merged[-1].hash == attempt.hash:
            if (last := merged.pop()).status == "passed":
                kept = [last] if attempt.status == "passed" else [last, attempt]
        merged += kept
    return merged


def _file(task: Task) -> Path:
    return progress.FILE.parent / "attempts" / f"{task.id}.jsonl"


def _line(attempt: Attempt) -> bytes:
    # A break before it, too: what was left unfinished there must not take this one with it.
    return f"\n{json.dumps(dataclasses.asdict(attempt))}\n".encode()


def _read(line: str) -> Attempt | None:
    """The attempt that a line holds; None if it is damaged."""
    try:
        data: dict[str, Any] = json.loads(line)
        attempt = Attempt(**{**data, "mistakes": tuple(Mistake(**mistake) for mistake in data["mistakes"])})
        datetime.fromisoformat(attempt.time)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    values = [
        attempt.headline,
        attempt.hash,
        attempt.code,
        *(text for m in attempt.mistakes for text in (m.name, m.fact)),
    ]
    return attempt if attempt.status in ("passed", "failed") and all(isinstance(v, str) for v in values) else None


def _add(task: Task, attempt: Attempt, after: list[Attempt]) -> bool:
    """Write one attempt more, or, where they have become too many, the last ones anew; whether that worked."""
    file = _file(task)
    line = _line(attempt)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if len(after) <= KEPT and (file.stat().st_size if file.exists() else 0) + len(line) <= LARGEST:
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                return os.write(handle, line) == len(line)
            finally:
                os.close(handle)
        lines: list[bytes] = []
        for each in map(_line, reversed(after[-KEPT:])):
            if sum(map(len, lines)) + len(each) > LARGEST:
                break
            lines.insert(0, each)
        progress.write_whole(file, b"".join(lines))
    except OSError:
        return False
    return True
