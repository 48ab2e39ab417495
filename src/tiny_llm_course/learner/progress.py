"""The stored progress: `hints` shown, last verdicts and code fingerprints in `tasks`, and what is `borrowed`."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from ..course.entities import Task
from ..course.registry import load_course
from ..course.requirements import missing
from ..course.results import TaskResult
from ..paths import LEARNER, ROOT
from ..source.code import fingerprint, holds_stub

FORGOTTEN = "This was not saved: .tiny-llm cannot be written to. To fix it: pdm run doctor"
FILE = ROOT / ".tiny-llm" / "progress.json"

Status = Literal["passed", "failed"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a task, the graded code's fingerprint, and the tasks to blame, with their code's fingerprints."""

    status: Status
    code: str
    culprits: Mapping[str, str] = dataclasses.field(default_factory=dict)


def load() -> dict[str, Any]:
    """Return the stored data; {} if the file is missing or damaged."""
    try:
        data = _parsed(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


@lru_cache(maxsize=1)  # a board asks for every task's verdict
def _parsed(text: str) -> Any:
    return json.loads(text)


def save(data: dict[str, Any]) -> bool:
    """Store the data; return False if the checkout is not writable."""
    content = json.dumps(data, indent=1).encode() + b"\n"
    try:
        FILE.parent.mkdir(exist_ok=True)
        write_whole(FILE, content)
    except OSError:
        return False
    return True


def write_whole(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file atomically: a concurrent reader sees the old or the new content."""
    handle, name = tempfile.mkstemp(prefix=f".{file.stem}-", suffix=".tmp", dir=file.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(content)
        os.chmod(name, mode)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def hints_seen(task: str) -> int:
    """Return how many hints of a task have been shown."""
    count = table("hints").get(task, 0)
    return count if isinstance(count, int) else 0


def hint_shown(task: str, rung: int) -> None:
    """Record that the hints up to this rung have been shown."""
    data = load()
    save({**data, "hints": {**table("hints", data), task: rung}})


def prepare(results: Iterable[TaskResult], whole: bool) -> None:
    """Before grading, note on each result what is borrowed, a stub, and, if all checks run, the code's fingerprint."""
    borrowed_ids, results = borrowed(), list(results)
    graded = set() if whole else {result.task.id for result in results}  # in part: a skipped task is graded, too
    lent = borrowed_ids | ({task.id for task in on_reference()} - graded)
    for result in results:
        result.borrowed = result.task.id in borrowed_ids
        result.on_reference = tuple(need for need in load_course().needs(result.task.id) if need in lent)
        result.stub = holds_stub(result.task, LEARNER)
        result.code = (fingerprint(result.task, LEARNER) or "") if whole else ""


def record(results: Sequence[TaskResult]) -> bool:
    """Store verdicts, each for the graded code; return whether that worked. Also note a failing task that one uses.

    A task that waits for another or was not run because of one loses its verdict; changed or partly run code keeps it.
    """
    data, course = load(), load_course()
    before = table("tasks", data)
    tasks = dict(before)
    for result in results:
        task = result.task
        if not result.code or result.code != fingerprint(task, LEARNER):
            continue
        if result.status in ("passed", "failed"):
            tasks[task.id] = {"status": result.status, "code": result.code}
            if result.culprits:
                tasks[task.id]["culprits"] = {id: fingerprint(course.task(id), LEARNER) for id in result.culprits}
        elif result.status == "not started" or (result.finding and result.status in ("waiting", "not run")):
            tasks.pop(task.id, None)
    saved = tasks == before or save({**data, "tasks": tasks})
    for result in results:
        if result.status == "failed" and not (result.suffers or result.claims):
            needs = [need for need in course.needs(result.task.id) if need not in result.on_reference]
            failing = (n for n in needs if (known := verdict(n)) and known.status == status_of(n) == "failed")
            result.failing_need = next(failing, "")
    return saved


def verdict(task_id: str, tasks: dict[str, Any] | None = None) -> Verdict | None:
    """Return a task's last verdict, by default as stored; None if there is none."""
    match (table("tasks") if tasks is None else tasks).get(task_id):
        case {"status": "passed" | "failed" as status, "code": str(code), **more}:
            culprits = table("culprits", {str(key): value for key, value in more.items()})
            return Verdict(status, code, {task.id: str(culprits[task.id]) for task in _tasks([*culprits])})
    return None


def status_of(task_id: str) -> Status | None:
    """Return the verdict on the task's current code: "failed" also if a later task blames it, None if there is none."""
    known, code = verdict(task_id), fingerprint(load_course().task(task_id), LEARNER)
    if known is None or known.code != code:
        return None
    return "failed" if known.status == "passed" and blamed_by(task_id, code) else known.status


def blamed_by(task_id: str, code: str | None) -> str:
    """Return the first task that currently fails because of this one with this code; "" if there is none."""
    tasks = table("tasks")
    for task in load_course().tasks():
        known = verdict(task.id, tasks)
        if known and code and known.culprits.get(task_id) == code and known.code == fingerprint(task, LEARNER):
            return task.id
    return ""


def done(task: Task) -> bool:
    """Return whether a task's current code has passed, or the task is borrowed."""
    return status_of(task.id) == "passed" or task.id in borrowed()


def settled(task: Task) -> bool:
    """Return whether no work is left here: done, not runnable here, or optional and not started."""
    return usable(task) or bool(missing(task.requires))


def skipped(task: Task) -> bool:
    """Return whether a task is optional and not started: what uses it runs on the reference, as if it were borrowed."""
    return task.optional and holds_stub(task, LEARNER)


def usable(task: Task) -> bool:
    """Return whether other code can use a task: it is done or skipped."""
    return done(task) or skipped(task)


def on_reference(used: Iterable[str] | None = None) -> tuple[Task, ...]:
    """Return the tasks that run on the reference: the borrowed ones, and of `used`, by default all, the skipped."""
    wanted = None if used is None else set(used)
    own, tasks = borrowed(), load_course().tasks()
    return tuple(t for t in tasks if t.id in own or ((wanted is None or t.id in wanted) and skipped(t)))


def why_on_reference(ids: Iterable[str]) -> str:
    """Return what the learner has done with tasks that run on the reference, in words."""
    return "borrowed" if borrowed().issuperset(ids) else "borrowed or skipped"


def borrowed() -> frozenset[str]:
    """Return the ids of the tasks that run on the reference."""
    return frozenset(task.id for task in borrowed_tasks())


def borrowed_tasks() -> tuple[Task, ...]:
    """Return the tasks that run on the reference, in the order of the course."""
    return _tasks(load().get("borrowed"))


def remember_borrowed(ids: Iterable[str]) -> bool:
    """Store that exactly these tasks run on the reference; return whether that worked."""
    chosen = set(ids)
    return save({**load(), "borrowed": [task.id for task in load_course().tasks() if task.id in chosen]})


def _tasks(ids: Any) -> tuple[Task, ...]:
    """Return the tasks with these ids, in the order of the course; none if `ids` is no list."""
    return tuple(task for task in load_course().tasks() if task.id in ids) if ids and isinstance(ids, list) else ()


def table(key: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a table of the stored data; {} if it is missing or damaged."""
    found = (load() if data is None else data).get(key)
    return found if isinstance(found, dict) else {}
