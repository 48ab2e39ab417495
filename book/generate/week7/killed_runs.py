"""Recorded runs of an agent that is killed at a moment of a step, and of the process that resumes it."""

import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.week7.crashes import Disk, Killed

from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.durable import DurableRun  # noqa: E402
from tiny_llm_solution.agent.loop import run_agent  # noqa: E402
from tiny_llm_solution.agent.model import ScriptedModel  # noqa: E402
from tiny_llm_solution.agent.resume import RECOVERY  # noqa: E402
from tiny_llm_solution.workspace import changes as changes_module  # noqa: E402
from tiny_llm_solution.workspace.journal import Journal  # noqa: E402
from tiny_llm_solution.workspace.tools import open_workspace  # noqa: E402

QUESTION = [{"role": "user", "content": "Set the count to 1, and post it."}]
READ, EDIT, POST = (
    {"name": "read_file", "arguments": {"path": "count.py"}},
    {"name": "edit_file", "arguments": {"path": "count.py", "old": "count = 0", "new": "count = 1"}},
    {"name": "post", "arguments": {"n": 1}},
)
SCRIPT = ["".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in (READ, EDIT, POST)), "Done."]
# Each moment at which the process may be killed: in words, and before or after which append; RENAME is in a write.
RENAME = (-1, False)
MOMENTS: dict[str, tuple[int, bool]] = {
    "before the answer is recorded": (0, False),
    "after the answer is recorded": (0, True),
    "after the intent to read": (1, True),
    "after the result of reading": (2, True),
    "after the intent to edit": (3, True),
    "after the journal, before the file": RENAME,
    "after the file, before the result": (4, False),
    "after the result of editing": (4, True),
    "after the intent to post": (5, True),
    "after posting, before the result": (6, False),
    "after the result of posting": (6, True),
    "after the last answer": (7, True),
}


class Post:
    """Posts a number, which cannot be undone."""

    name, description = "post", "Post a number."
    parameters: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}  # noqa: RUF012

    def __init__(self, posted: list[int]) -> None:
        self.posted = posted

    def call(self, arguments: dict[str, Any]) -> str:
        """Post."""
        self.posted.append(arguments["n"])
        return "posted"


def played(moment: str) -> dict[str, Any]:
    """Run an agent that is killed at a moment, then one that resumes; return the log and the state after each entry."""
    with tempfile.TemporaryDirectory() as top:
        folder, posted = Path(top).resolve() / "w", list[int]()
        folder.mkdir()
        (folder / "count.py").write_text("count = 0\n")
        journal = Journal(Path(top).resolve() / "undo")

        def process(disk: Disk) -> None:
            tools, changes = open_workspace(folder, journal.folder, lambda action, diff: True)
            run = DurableRun(disk.entries, disk.append, changes)
            script = SCRIPT[sum("answer" in entry for entry in disk.entries) :]
            wrapped = [run.tool(tool, RECOVERY.get(tool.name, "report")) for tool in (*tools, Post(posted))]
            run_agent(run.model(ScriptedModel(script)), QUESTION, wrapped)

        def world() -> dict[str, Any]:
            return {
                "count": (folder / "count.py").read_text().strip(),
                "steps": len(journal),
                "leftover": len(list(folder.iterdir())) > 1,
                "posts": len(posted),
            }

        disk = Disk(kill=MOMENTS[moment])
        with contextlib.suppress(Killed):
            _die_before_rename(lambda: process(disk)) if MOMENTS[moment] == RENAME else process(disk)
        first, before = disk.entries, world()
        second = Disk(first)
        states, append = [before] * (len(first) + 1), second.append

        def watched(entry: dict[str, Any]) -> None:
            append(entry)
            states.append(world())

        second.append = watched  # type: ignore[method-assign]
        process(second)
        log = [words(entry) for entry in second.entries]
        recovery = _recovery(before, log, len(first))
        return {"log": log, "kept": len(first), "recovery": recovery, "states": states}


def _die_before_rename(run: Callable[[], None]) -> None:
    """Stop a process in the middle of a write. Nothing that would run after an exception may run, as after kill -9."""

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with (
        mock.patch.object(changes_module.os, "rename", die),
        mock.patch.object(changes_module.os, "unlink"),
        mock.patch.object(Journal, "pop"),
    ):
        run()


def words(entry: dict[str, Any]) -> str:
    """Return a log's entry in a few words."""
    if "answer" in entry:
        calls = [call["function"]["name"] for call in entry["answer"].get("tool_calls", ())]
        return f"answer: {', '.join(calls) or entry['answer']['content']}"
    if "call" in entry:
        return f"call: {entry['call']}"
    return "error: interrupted" if "error" in entry else f"result: {_short(entry['result'])}"


def _recovery(killed: dict[str, Any], log: list[str], kept: int) -> str:
    """Return how a process gets an outcome that the log does not have; empty if its last entry is no intent."""
    if not kept or not log[kept - 1].startswith("call: "):
        return ""
    if log[kept - 1] == "call: edit_file" and killed["steps"]:
        return "file compared: edit " + ("not repeated" if killed["count"] == "count = 1" else "repeated")
    return "not repeated" if log[kept].startswith("error") else "call repeated"


def _short(result: str) -> str:
    return {"-": "the diff", " ": "count = 0"}.get(result[0], result)
