"""The attempts at each task, one JSON line each in `.tiny-llm/attempts/TASK.jsonl`, for `export --history` only.

An attempt is a verdict on new code; another verdict on the same code replaces it, but a pass is kept. Each line is
appended in one write and parsed alone, so concurrent graders or a damaged line cost at most one line.
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

from ..course.entities import Task
from ..course.registry import load_course
from ..course.results import TaskResult
from ..paths import LEARNER
from ..source.code import fingerprint
from ..source.excerpts import NoSuchCode, code_of
from . import progress

KEPT = 50  # last attempts of a task
LARGEST = 1 << 18  # bytes of them
LONGEST = 1 << 14  # characters of an attempt's code
HASH = 16  # digits of a fingerprint
NAMED = 3  # mistakes listed in a road


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A known mistake that was named: its name in the course, and its fact."""

    name: str
    fact: str

    @property
    def words(self) -> str:
        """Return the name in words: no scale, eps fixed at 1e-5."""
        return re.sub(r"(?<!\de)-", " ", self.name)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A verdict on some code of a task."""

    time: str  # of the verdict, ISO 8601, UTC
    status: progress.Status
    headline: str  # of the finding
    mistakes: tuple[Mistake, ...]
    hash: str  # prefix of the code's fingerprint
    code: str  # the target and its private helpers, without docstrings

    @property
    def local_time(self) -> str:
        """Return the time in this machine's time zone."""
        return f"{datetime.fromisoformat(self.time).astimezone():%Y-%m-%d %H:%M}"


def record(results: Sequence[TaskResult]) -> bool:
    """Store verdicts, and the attempts among them; return whether that worked. A new pass gets its `road`."""
    remembered = progress.record(results)
    for result in results:
        # If a file cannot be imported, no task in it was tried.
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
    """Return the stored attempts at a task, oldest first."""
    try:
        lines = _file(task).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return _merged(filter(None, map(_read, lines)))[-KEPT:]


def tasks_tried() -> dict[Task, list[Attempt]]:
    """Return the tasks with attempts, in the order of the course."""
    return {task: attempts for task in load_course().tasks() if (attempts := of_task(task))}


def road(attempts: Sequence[Attempt]) -> str:
    """Return one line on the failed attempts since the last pass: how many, and the named mistakes; "" if none."""
    failed = [*takewhile(lambda attempt: attempt.status == "failed", reversed(attempts[:-1]))][::-1]
    if not failed:
        return ""
    count = f"{len(failed) + 1}{' or more' * (len(attempts) == KEPT == len(failed) + 1)} attempts"
    names = [*dict.fromkeys(f'"{mistake.words}"' for attempt in failed for mistake in attempt.mistakes)]
    more = [f"{len(names) - NAMED} more"] * (len(names) > NAMED)
    first, *others = [*names[:NAMED], *more] or [""]
    then = ", then " + " and ".join(filter(None, [", ".join(others[:-1]), others[-1]])) if others else ""
    return f"{count}: {first} first{then}" if first else count


def difference(before: Attempt | None, attempt: Attempt) -> list[str]:
    """Return the diff between two attempts' code, without file headers and the first hunk's position."""
    old, new = (before.code if before else "").splitlines(), attempt.code.splitlines()
    return [*difflib.unified_diff(old, new, lineterm="")][3:]


def _attempt(result: TaskResult) -> Attempt | None:
    """Return the attempt of a verdict; None if the code has changed since."""
    try:
        code = code_of(LEARNER, result.task.target)[:LONGEST]
    except NoSuchCode:
        code = ""
    if result.code != fingerprint(result.task, LEARNER):
        return None
    claims = [claim for claim in result.claims if not claim.here]
    named = [pair for claim in claims for pair in zip(claim.names, claim.facts, strict=True)]
    return Attempt(
        datetime.now(UTC).isoformat(timespec="seconds"),
        "passed" if result.status == "passed" else "failed",
        result.finding.headline if result.finding else "",
        tuple(Mistake(*pair) for pair in dict.fromkeys(named)),
        result.code[:HASH],
        code,
    )


def _merged(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the attempts, keeping of consecutive ones with the same code the last, and a pass before it."""
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
    # Also a leading newline, so that a truncated line before it does not swallow this one.
    return f"\n{json.dumps(dataclasses.asdict(attempt))}\n".encode()


def _read(line: str) -> Attempt | None:
    """Return the attempt in a line; None if the line is damaged."""
    try:
        data: dict[str, Any] = json.loads(line)
        attempt = Attempt(**{**data, "mistakes": tuple(Mistake(**mistake) for mistake in data["mistakes"])})
        datetime.fromisoformat(attempt.time)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    values = [attempt.headline, attempt.hash, attempt.code, *(t for m in attempt.mistakes for t in (m.name, m.fact))]
    return attempt if attempt.status in ("passed", "failed") and all(isinstance(v, str) for v in values) else None


def _add(task: Task, attempt: Attempt, after: list[Attempt]) -> bool:
    """Append an attempt, or rewrite the file with the last ones if it is full; return whether that worked."""
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
