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
from tiny_llm_course.dev.book.drawing.canvas import WIDEST
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
# The figure: what happens in an edit and a post, and the moment after it at which the process is killed.
EVENTS = {
    "intent to edit": "after the intent to edit",
    "undo step in the journal": "after the journal, before the file",
    "count.py is replaced": "after the file, before the result",
    "result of editing": "",
    "intent to post": "",
    "the number is posted": "after posting, before the result",
    "result of posting": "",
}
AXIS, EVENT, LINE = 10.0, 30.0, 16.0  # pixels: the axis, from an event to the next one, and a line of a frame
KILL = 2 * LINE + 8 + EVENT - 22


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
    """Draw a step's events in order, and at four moments what is on disk if the process is killed there."""
    runs = {name: played(name) for name in EVENTS.values() if name}

    def draw(canvas: Canvas) -> None:
        wide, y = canvas.width > WIDEST, 12.0
        bottom = y + EVENT * (len(EVENTS) - 1) + len(runs) * (KILL if wide else KILL + LINE)
        canvas.path([(AXIS, y), (AXIS, bottom)], "axis")
        for event, moment in EVENTS.items():
            if event.startswith(("intent", "result")):
                canvas.rect(AXIS - 6, y - 6, 12, 12, "hollow series-0", 2)
            else:
                canvas.circle(AXIS, y, 6, "fill series-0")
            canvas.text(AXIS + 18, y + 5, event)
            if moment:
                y = _killed(canvas, runs[moment], y + EVENT - 8, wide) + 8
            y += EVENT if not moment else 8

    about = "; ".join(
        f"killed {name}: {_state(run['killed'])}; resumed: {_state(run['resumed'])}" for name, run in runs.items()
    )
    caption = (
        "One step, from top to bottom. A square is a log entry, and a disc is a change outside the log. At each cross, "
        "the process is killed. The frame next to the cross shows the recorded state at that moment and after the next "
        "process has finished. In all four cases, the last log entry before the kill is an intent."
    )
    return at_both_widths(draw).figure("resume-7-5", "Four moments at which an agent is killed", about, caption)


def _killed(canvas: Canvas, run: dict[str, Any], y: float, wide: bool) -> float:
    """Draw a kill with what is on disk then and after resuming; return where its frame ends."""
    entry = f"the log gets {run['log'][run['kept']]}"
    killed, resumed = (_state(run[when]).replace(":", "") for when in ("killed", "resumed"))
    lines = [f"when killed: {killed}" if wide else killed, f"resumed: {resumed}"]
    lines = [lines[0], f"{lines[1]}; {entry}"] if wide else [*lines, entry]
    left, height = AXIS + 16, LINE * len(lines) + 8
    for slope in (1, -1):
        middle = y + height / 2
        canvas.path([(AXIS - 6, middle - 6 * slope), (AXIS + 6, middle + 6 * slope)], "line cross")
    canvas.rect(left, y, canvas.width - 4 - left, height, "frame", 4)
    for i, words in enumerate(lines):
        canvas.text(left + 8, y + LINE * (i + 1), words, "small")
    return y + height


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
