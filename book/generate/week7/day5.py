"""Day 5's figure and widget, of runs that are killed at each moment of a step; its tables and its summary."""

import json
from typing import Any

from book.generate.week7.killed_runs import MOMENTS, played
from tests.week7.compacting import QUESTIONS, WORK, conversation, one

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.compaction import compact  # noqa: E402

# Questions of the tests, in words that a reader of the table understands without the conversation.
WORDING = {"What else does the user want?": "Which file must stay as it is?", "And then?": "Tabs or spaces?"}
SHOWN = "after the file, before the result"  # the moment of the figure
ROW = 34.0  # pixels


def generated_parts() -> Parts:
    """Return the figure, the tables, the summary and the widget."""
    return {
        "resume": resume(),
        "summary": summary(),
        "questions": questions(),
        "killed": killed(),
        "resume-steps": resume_steps(),
    }


def _state(world: dict[str, Any]) -> str:
    leftover = ", leftover file" if world["leftover"] else ""
    return f"{world['count']}, undo steps: {world['steps']}, posts: {world['posts']}{leftover}"


def resume() -> str:
    """Draw the log of a run that is killed, and which of two processes writes, replays or recovers each entry."""
    run = played(SHOWN)
    log, kept = [run["log"][0].replace("_file", ""), *run["log"][1:]], run["kept"]  # the answer fits in its column
    state, old = run["states"][0]["count"], "count = 0"
    rows = [*log[:kept], "", *log[kept:]]  # the edit is not in the log
    notes = ["replayed: no model is called", *["replayed: no file is read"] * (kept - 2)]
    notes += [
        "no result follows: look at the file",
        "the edit is done: do not repeat it",
        "new: the outcome of the edit",
        "new: before the post",
        "new: after the post",
        "new: the model is called",
    ]
    first, second, left, right = 14.0, 46.0, 66.0, 390.0

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > WIDEST
        top, row, disk = SMALL + FONT + 18, ROW if wide else ROW + 8, 290.0
        canvas.text((first + second) / 2, SMALL, "process", "small", "middle")
        for x, name in ((first, "1"), (second, "2")):
            canvas.text(x, 2 * SMALL + 4, name, "strong", "middle")
        canvas.text(left, 2 * SMALL + 4, "log entry", "strong")
        canvas.text(disk, 2 * SMALL + 4, "count.py", "strong")
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
            canvas.text(left, y + 5, entry)
            canvas.text(disk, y + 5, old if i < kept else state, "strong" if i == kept else "small")
            canvas.text(right if wide else left, y + (5 if wide else 21), note, "small")

    about = (
        f"Process 1 writes {kept} log entries, {'; '.join(log[:kept])}, then changes the file, {state}, and is killed. "
        f"Process 2 replays these entries, finds the edit done, and writes {'; '.join(log[kept:])}."
    )
    caption = (
        "A recorded run, from top to bottom. A disc is something that a process does, and a ring something that it "
        "only looks up. Process 1 is killed (cross) after it has replaced <code>count.py</code>, which is not in the "
        "log, but before it has written the result. Process 2 starts the run again from the beginning, and does "
        "nothing twice."
    )
    return at_both_widths(draw).figure("resume-7-5", "A run that is killed and resumed", about, caption)


def resume_steps() -> str:
    """Return the widget, and a table of all moments."""
    data, rows = [], []
    for name in MOMENTS:
        run = played(name)
        states = [_state(state) for state in run["states"]]
        data.append({"name": name, **run, "states": states})
        rows.append([name, str(run["kept"]), states[0], run["recovery"], states[-1]])
    head = ["moment of the kill", "log entries", "state when killed", "recovery", "state after resuming"]
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
