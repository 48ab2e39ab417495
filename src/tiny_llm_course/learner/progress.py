"""What the course remembers about a learner: a small file, ignored by git, whose loss costs nothing but the memory.

`hints` counts the hints shown of each task, `tasks` keeps each task's last verdict and the fingerprint of the code that
it was given for, `borrowed` lists the tasks that run on the reference. Whatever else the file holds is left alone.
"""

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from ..course.nouns import Task
from ..course.registry import load_course
from ..course.requirements import missing
from ..course.results import TaskResult
from ..paths import LEARNER, ROOT
from ..source.code import fingerprint
from ..source.written import holds_stub

FORGOTTEN = "Nothing of this is remembered, as .tiny-llm cannot be written to. What helps: pdm run doctor"
FILE = ROOT / ".tiny-llm" / "progress.json"

Status = Literal["passed", "failed"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What grading said of a task, of which code, and which tasks it uses were to blame, each with its code."""

    status: Status
    code: str
    culprits: Mapping[str, str] = dataclasses.field(default_factory=dict)


def load() -> dict[str, Any]:
    """All that is remembered; nothing if the file is missing or damaged."""
    try:
        data = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def save(data: dict[str, Any]) -> bool:
    """Remember, and say whether that worked; a checkout that cannot be written to remembers nothing, and works."""
    content = json.dumps(data, indent=1).encode() + b"\n"
    try:
        FILE.parent.mkdir(exist_ok=True)
        write_whole(FILE, content)
    except OSError:
        return False
    return True


def write_whole(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file; whoever reads it meanwhile finds the old one or the new one, whole."""
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
    """How many hints of a task have been shown."""
    count = _table(load(), "hints").get(task, 0)
    return count if isinstance(count, int) else 0


def hint_shown(task: str, rung: int) -> None:
    """Remember that the hints up to this rung have been shown."""
    data = load()
    save({**data, "hints": {**_table(data, "hints"), task: rung}})


def prepare(results: Iterable[TaskResult], whole: bool) -> None:
    """Before grading: note what is borrowed, what a stub, and, if all checks are run, which code the verdict is for."""
    lent = borrowed()
    for result in results:
        result.borrowed = result.task.id in lent
        result.on_reference = tuple(need for need in load_course().needs(result.task.id) if need in lent)
        result.stub = holds_stub(result.task, LEARNER)
        result.code = (fingerprint(result.task, LEARNER) or "") if whole else ""


def record(results: Iterable[TaskResult]) -> bool:
    """Remember the verdicts that grading gave, each for the code that was graded; whether that worked.

    A task that waits for another one, or is not run because of one or of a file, has no verdict any more. One whose
    code has changed meanwhile, or of which not all checks were run, keeps the verdict that it had; so does one that
    cannot be run here.
    """
    data, course = load(), load_course()
    before = _table(data, "tasks")
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
    return tasks == before or save({**data, "tasks": tasks})


def verdict(task_id: str) -> Verdict | None:
    """A task's last verdict; None if there is none."""
    return _verdict(_table(load(), "tasks"), task_id)


def _verdict(table: dict[str, Any], task_id: str) -> Verdict | None:
    match table.get(task_id):
        case {"status": "passed" | "failed" as status, "code": str(code), **more}:
            culprits = _table({str(key): value for key, value in more.items()}, "culprits")
            return Verdict(status, code, {task.id: str(culprits[task.id]) for task in _tasks([*culprits])})
    return None


def status_of(task_id: str) -> Status | None:
    """ "passed" or "failed" if that is the verdict on the task's code as it is now, else None.

    One that a later task blames has failed, although it passes its own checks.
    """
    known, code = verdict(task_id), fingerprint(load_course().task(task_id), LEARNER)
    if known is None or known.code != code:
        return None
    return "failed" if known.status == "passed" and blamed_by(task_id, code) else known.status


def blamed_by(task_id: str, code: str | None) -> str:
    """The first of the tasks that fail, as they are now, because of this one with this code; "" if there is none."""
    table = _table(load(), "tasks")
    for task in load_course().tasks():
        known = _verdict(table, task.id)
        if known and code and known.culprits.get(task_id) == code and known.code == fingerprint(task, LEARNER):
            return task.id
    return ""


def done(task: Task) -> bool:
    """Whether a task has passed as it is now, or is borrowed."""
    return status_of(task.id) == "passed" or task.id in borrowed()


def settled(task: Task) -> bool:
    """Whether nothing is left to do on this machine: it is done or cannot be run here, or is optional and not begun."""
    return done(task) or bool(missing(task.requires)) or (task.optional and holds_stub(task, LEARNER))


def borrowed() -> frozenset[str]:
    """The ids of the tasks that run on the reference."""
    return frozenset(task.id for task in borrowed_tasks())


def borrowed_tasks() -> tuple[Task, ...]:
    """The tasks that run on the reference, in the order of the course."""
    return _tasks(load().get("borrowed"))


def remember_borrowed(ids: Iterable[str]) -> bool:
    """Remember that these tasks and no others run on the reference; whether that worked."""
    chosen = set(ids)
    return save({**load(), "borrowed": [task.id for task in load_course().tasks() if task.id in chosen]})


def _tasks(ids: Any) -> tuple[Task, ...]:
    """The tasks with these ids, in the order of the course; none if that is no list."""
    return tuple(task for task in load_course().tasks() if isinstance(ids, list) and task.id in ids)


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    table = data.get(key)
    return table if isinstance(table, dict) else {}
