"""Day 3's figure, listing and widget: runs of the loop with a scripted model."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import width_of
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.agent.files import reading_tools  # noqa: E402
from tiny_llm_solution.agent.loop import Limits, run_agent  # noqa: E402
from tiny_llm_solution.agent.model import Answer, ScriptedModel  # noqa: E402

FILES = {"dog.py": 'from colors import DOG\n\nprint(f"The dog is {DOG}.")\n', "colors.py": 'DOG = "blue"\n'}
QUESTION = "What does dog.py print?"


def _call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


READ, COLORS = _call("read_file", path="dog.py"), _call("read_file", path="colors.py")
# The widget's runs: answers, limits, and the seconds that an answer and a call take.
RUNS: dict[str, tuple[Sequence[str], dict[str, float], float, float]] = {
    "done": ((f"Let me read dog.py.\n{READ}", COLORS, "It prints: The dog is blue."), {}, 2.0, 0.1),
    "errors fed back": (
        (_call("read_file", file="dog.py"), _call("read", path="dog.py"), f"{READ}\n{COLORS}", "The dog is blue."),
        {},
        2.0,
        0.1,
    ),
    "repeats": ((READ, READ, READ, READ), {}, 2.0, 0.1),
    "the time is over": ((f"{READ}\n{COLORS}\n{READ}",), {"seconds": 10.0}, 3.0, 8.0),
    "too many steps": ((READ, COLORS, _call("list_files", path=".")), {"steps": 3}, 2.0, 0.1),
}
LIMITS = {"steps": 8, "tokens": 400, "seconds": 60.0, "repeats": 3}  # the widget's, unless a run has others


def generated_parts() -> Parts:
    """Return the figure, the transcript and the widget."""
    return {"run": run(), "transcript": transcript(), "agent-run": agent_run()}


def played(name: str) -> list[dict[str, Any]]:
    """Return the entries of a run, each with what has been used of the limits until then."""
    answers, changed, takes, call_takes = RUNS[name]
    script, now, used, entries = ScriptedModel(answers), [0.0], {"steps": 0, "tokens": 0}, list[dict[str, Any]]()
    last, repeated = [""], [0]

    def model(messages: Any, tools: Any) -> Answer:
        now[0] += takes
        answer: Answer = script(messages, tools)
        used["steps"] += 1
        used["tokens"] += answer.tokens
        key = json.dumps([call["function"] for call in answer.message.get("tool_calls", [])])
        repeated[0] = repeated[0] + 1 if key == last[0] else 1  # files do not change, so neither do results
        last[0] = key
        return answer

    class Slow:
        """A tool that takes a while."""

        def __init__(self, tool: Any) -> None:
            self.tool, self.name, self.description = tool, tool.name, tool.description
            self.parameters = tool.parameters

        def call(self, arguments: dict[str, Any]) -> str:
            now[0] += call_takes
            return str(self.tool.call(arguments))

    def record(entry: dict[str, Any]) -> None:
        entries.append(entry | {"used": used | {"seconds": round(now[0], 1), "repeats": repeated[0]}})

    with tempfile.TemporaryDirectory() as folder:
        for file, text in FILES.items():
            (Path(folder) / file).write_text(text, encoding="utf-8")
        tools: list[Any] = [Slow(tool) for tool in reading_tools(Path(folder))]
        question = {"role": "user", "content": QUESTION}
        record({"message": question})
        limits = Limits(**{**LIMITS, **changed})
        run_agent(model, [question], tools, limits, clock=lambda: now[0], record=record)
    return entries


def _words(message: dict[str, Any]) -> list[str]:
    """Return a message in lines: its text, then its calls."""
    text = [line for line in (message.get("content") or "").splitlines() if line]
    calls = [f"{c['function']['name']} {c['function']['arguments']}" for c in message.get("tool_calls", [])]
    return text + calls


def run() -> str:
    """Draw the messages of a run: the user's, the model's and the tools' in lanes."""
    entries = played("done")
    lanes = {"user": "user", "assistant": "model", "tool": "tools"}

    def draw(canvas: Canvas) -> None:
        step = min(92.0, canvas.width / 6)
        for number, name in enumerate(lanes.values()):
            canvas.text(number * step, 14, name, "strong")
        y = 26.0
        for entry in entries:
            if "stop" in entry:
                canvas.text(0, y + 14, f"stop: {entry['stop']}", "strong")
                continue
            lane = [*lanes].index(entry["message"]["role"])
            lines = _words(entry["message"])
            most = int((canvas.width - lane * step - 16) / width_of("n"))
            shown = [line if len(line) <= most else line[: most - 2] + " \N{HORIZONTAL ELLIPSIS}" for line in lines]
            wide = max(map(width_of, shown)) + 12
            canvas.rect(lane * step, y, wide, 18 * len(shown) + 8, "frame", 3)
            for i, line in enumerate(shown):
                canvas.text(lane * step + 6, y + 17 + 18 * i, line)
            y += 18 * len(shown) + 18

    about = "; ".join(f"{e['message']['role']}: {' / '.join(_words(e['message']))}" for e in entries if "message" in e)
    used = entries[-1]["used"]
    caption = (
        f"A run of {used['steps']} steps: the model asks for a file, reads it, asks for the file that it imports, and "
        "answers. The model is scripted; the files, the tools and the loop are real."
    )
    return at_both_widths(draw).figure("run-7-3", "The messages of a run", about, caption)


def transcript() -> str:
    """Quote the transcript of a run with errors, a line each."""
    lines = []
    for entry in played("errors fed back"):
        text = json.dumps({name: value for name, value in entry.items() if name != "used"})
        lines.append(text if len(text) <= 118 else text[:112] + " ...")
    return "\n".join(["```text", *lines, "```", ""])


def agent_run() -> str:
    """Return the widget, and a table of the runs."""
    data, rows = [], []
    for name, (_, changed, _, _) in RUNS.items():
        entries, limits = played(name), {**LIMITS, **changed}
        shown = []
        for entry in entries:
            message = entry.get("message", {"role": "stop", "content": entry.get("stop", "")})
            shown.append({"role": message["role"], "lines": _words(message), "used": entry["used"]})
        data.append({"name": name, "limits": limits, "entries": shown})
        used = entries[-1]["used"]
        rows.append([name, entries[-1]["stop"], str(used["steps"]), str(used["tokens"]), f"{used['seconds']:g}"])
    return element(
        "agent-run",
        {"runs": data},
        table("Runs of the loop", ["run", "reason to stop", "steps", "tokens", "seconds"], rows),
    )
