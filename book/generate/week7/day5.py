"""Day 5's figure and widget, of runs that are killed at each moment of a step; its tables and its summary."""

import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.week7.compacting import QUESTIONS, WORK, conversation, one
from tests.week7.crashes import Disk, Killed

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.compaction import compact  # noqa: E402
from tiny_llm_solution.agent.durable import DurableRun  # noqa: E402
from tiny_llm_solution.agent.loop import run_agent  # noqa: E402
from tiny_llm_solution.agent.model import ScriptedModel  # noqa: E402
from tiny_llm_solution.agent.resume import RECOVERY  # noqa: E402
from tiny_llm_solution.workspace import changes as changes_module  # noqa: E402
from tiny_llm_solution.workspace.journal import Journal  # noqa: E402
from tiny_llm_solution.workspace.tools import open_workspace  # noqa: E402

QUESTION = [{"role": "user", "content": "Set the count to 1, and post it."}]
# Questions of the tests, in words that a reader of the table understands without the conversation.
WORDING = {"What else does the user want?": "Which file must stay as it is?", "And then?": "Tabs or spaces?"}
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
SHOWN = "after the file, before the result"  # the moment of the figure
ROW = 34.0  # pixels


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


def generated_parts() -> Parts:
    """Return the figure, the tables, the summary and the widget."""
    return {
        "resume": resume(),
        "summary": summary(),
        "questions": questions(),
        "killed": killed(),
        "resume-steps": resume_steps(),
    }


def played(moment: str) -> dict[str, Any]:
    """Run an agent that is killed at a moment, then one that resumes; return what is there after each of them."""
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
        process(second)
        log = [words(entry) for entry in second.entries]
        return {"log": log, "kept": len(first), "killed": before, "resumed": world()}


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


def _short(result: str) -> str:
    return {"-": "the diff", " ": "count = 0"}.get(result[0], result)


def _state(world: dict[str, Any]) -> str:
    leftover = ", leftover file" if world["leftover"] else ""
    return f"{world['count']}, undo steps: {world['steps']}, posts: {world['posts']}{leftover}"


def resume() -> str:
    """Draw the log of a run that is killed, and which of two processes writes, replays or recovers each entry."""
    run = played(SHOWN)
    log, kept, state = run["log"], run["kept"], run["killed"]["count"]
    rows = [*log[:kept], f"count.py is replaced: {state}", *log[kept:]]  # the edit is not in the log
    notes = ["replayed: no model is called", *["replayed: no file is read"] * (kept - 2)]
    notes += [
        "no result follows: look at the file",
        "the edit is done: do not repeat it",
        "written, and the run continues",
    ]
    notes += [""] * (len(rows) - len(notes))
    first, second, left, right = 20.0, 58.0, 84.0, 390.0

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        top, row = SMALL + FONT + 18, ROW if wide else ROW + 8
        canvas.text((first + second) / 2, SMALL, "process", "small", "middle")
        for x, name in ((first, "1"), (second, "2")):
            canvas.text(x, 2 * SMALL + 4, name, "strong", "middle")
        canvas.text(left, 2 * SMALL + 4, "log entry", "strong")
        if wide:
            canvas.text(right, 2 * SMALL + 4, "what process 2 does", "strong")
        last, dead = top + row * (len(rows) - 1), top + row * (kept + 0.6)
        canvas.path([(first, top), (first, dead)], "line series-0")
        canvas.path([(second, top), (second, last)], "line series-0")
        for slope in (1, -1):
            canvas.path([(first - 6, dead - 6 * slope), (first + 6, dead + 6 * slope)], "line cross")
        for i, (entry, note) in enumerate(zip(rows, notes, strict=True)):
            y = top + row * i
            if i <= kept:
                canvas.circle(first, y, 6, "fill series-0")
            canvas.circle(second, y, 6, f"{'fill' if i > kept else 'hollow'} series-0")
            canvas.text(left, y + 5, entry, "strong" if i == kept else "")
            canvas.text(right if wide else left, y + (5 if wide else 21), note, "small")

    about = (
        f"Process 1 writes {kept} log entries, {'; '.join(log[:kept])}, then changes the file, {state}, and is killed. "
        f"Process 2 replays these entries, finds the edit done, and writes {'; '.join(log[kept:])}."
    )
    caption = (
        "A recorded run, from top to bottom. A disc is something that a process does, and a ring something that it "
        "only looks up. Process 1 is killed (cross) after it has replaced <code>count.py</code>, but before it has "
        "written the result. Process 2 starts the run again from the beginning, and does nothing twice."
    )
    return at_both_widths(draw).figure("resume-7-5", "A run that is killed and resumed", about, caption)


def resume_steps() -> str:
    """Return the widget, and a table of all moments."""
    data, rows = [], []
    for name in MOMENTS:
        run = played(name)
        data.append({"name": name, **run, "killed": _state(run["killed"]), "resumed": _state(run["resumed"])})
        rows.append([name, str(run["kept"]), _state(run["killed"]), _state(run["resumed"])])
    head = ["moment of the kill", "log entries", "state when killed", "state after resuming"]
    return element("resume-steps", {"moments": data}, table("Kills at each moment of a run", head, rows))


def summary() -> str:
    """Quote the summary of the work in the tests."""
    found = compact(conversation(WORK), 6, one)
    text = next(message["content"] for message in found if str(message["content"]).startswith("Summary"))
    return "\n".join(["```text", text, "```", ""])


def questions() -> str:
    """Return which questions can be answered after compaction, and if only the last messages are kept."""
    messages = conversation(WORK)
    compacted = compact(messages, 6, one)
    dropped = messages[-len(compacted) :]
    lines = ["| Question | Answered from the last messages | Answered after compaction |", "|---|---|---|"]
    for question, (answer, wanted) in QUESTIONS.items():
        if wanted:
            kept = ["yes" if _has(part, answer) else "no" for part in (dropped, compacted)]
            lines.append(f"| {WORDING.get(question, question)} | {kept[0]} | {kept[1]} |")
    return "\n".join([*lines, ""])


def _has(messages: list[dict[str, Any]], answer: str) -> bool:
    return answer in "\n".join(str(message.get("content")) for message in messages)


def killed() -> str:
    """Return the record of processes killed at random moments."""
    record = json.loads((ROOT / "benches" / "week7" / "killed.json").read_text(encoding="utf-8"))
    moments = sum(count for name, count in record["moments"].items() if name.startswith("intent"))
    return (
        f"Of {record['kills']} real processes that were killed with `kill -9` at random moments, {moments} were in the "
        f"middle of a call. After the runs were resumed, {record['lost']} completed steps were lost, "
        f"{record['repeated']} side effects were repeated, {record['wrong']} files were wrong, and "
        f"{record['interrupted']} calls had been reported as interrupted (`benches/killed_agents.py`).\n"
    )
