"""The week as one figure: a run of the agent on a case of the suite, and how many tokens a call's grammar allows."""

import functools
import json
import math
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from book.generate.week7.day1 import LARGEST, tokenizer

from tiny_llm_course.agent_suite.cases import load_cases
from tiny_llm_course.agent_suite.running import NEEDS, CaseRun, run_case
from tiny_llm_course.agent_suite.scripted import scripted
from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import SMALL, WIDEST, width_of
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.engine.package import Package
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.serving.schema import Chat

load_solution()
from tiny_llm_solution.constrained.grammar import GrammarCompiler  # noqa: E402
from tiny_llm_solution.constrained.trie import TokenTrie, unpack  # noqa: E402
from tiny_llm_solution.tools.tool import function_schema  # noqa: E402
from tiny_llm_solution.workspace.tools import open_workspace  # noqa: E402

CASE, CALL = "readings", 1  # of the suite, and the call whose tokens are drawn
ROW, HIGH = 54.0, 34.0  # pixels: a step's height, and that of the bar for the most tokens


def generated_parts() -> Parts:
    """Return the figure."""
    return {"run": figure()}


@functools.cache
def run() -> CaseRun:
    """Run the scripted agent that knows the fix; the tools and the hidden tests are real."""
    package, case = Package(True, NEEDS), next(case for case in load_cases() if case.name == CASE)
    return run_case(package, case, scripted(package, "fixes")(case))


def steps() -> list[tuple[dict[str, Any], str]]:
    """Return the calls, each with its result."""
    found = [entry["message"] for entry in run().entries if "message" in entry]
    calls = [message["tool_calls"][0]["function"] for message in found if message.get("tool_calls")]
    return list(zip(calls, [message["content"] for message in found if message["role"] == "tool"], strict=True))


def short(call: dict[str, Any], result: str) -> tuple[str, list[str]]:
    """Return what the call is about, and the two lines of the result that matter."""
    arguments, lines, edit = json.loads(call["arguments"]), result.splitlines(), run().case.fix[0]
    about = arguments.get("path") or " ".join(arguments.get("command", []))
    if call["name"] == "read_file":
        at = next(i for i, line in enumerate(lines) if edit.old.strip() in line)
        lines = lines[at : at + 1]
    elif call["name"] == "edit_file":
        lines = [line for line in lines if line[:2] in ("- ", "+ ")]
    return about, [" ".join(line.split()) for line in lines[-2:]]


def choices() -> list[tuple[str, int]]:
    """Return the tokens of a call, each with the number of tokens that its grammar allows there."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as undo:
        tools, changes = open_workspace(Path(folder), Path(undo), lambda *_: False)
        with changes.root:
            listed = [function_schema(tool) for tool in tools]
    asked = [{"role": "user", "content": run().case.statement}]
    chat = Chat.model_validate({"model": "", "messages": asked, "tools": listed, "tool_choice": "required"})
    words, (call, _) = tokenizer(), steps()[CALL]
    trie = TokenTrie(words.token_bytes, LARGEST, {*words.special_tokens.values()})
    grammar = GrammarCompiler(trie, [words.special_tokens["<|im_end|>"]]).compile(chat.call_schema)
    text = json.dumps({"name": call["name"], "arguments": json.loads(call["arguments"])}, separators=(",", ":"))
    state, found = grammar.start, []
    for token in words.encode(text):
        found.append((words.decode([token]), int(unpack(grammar.mask(state), LARGEST).sum())))
        state = grammar.advance(state, token)
    return found


def figure() -> str:
    """Draw the calls and their results side by side, and below them how many tokens a call's grammar allows."""
    tokens, bug = choices(), run().case.statement.replace("`", "").split(". ")[0] + "."
    answer = run().entries[-2]["message"]["content"]
    text, most = "".join(token for token, _ in tokens), max(allowed for _, allowed in tokens)
    forced = sum(allowed == 1 for _, allowed in tokens)
    verdict = str(run().grade.verdict)

    def draw(canvas: Canvas) -> None:
        wide, whole = canvas.width > WIDEST, canvas.width - 8
        left, right = (220.0, 280.0) if wide else (140.0, 160.0)

        def box(x: float, y: float, end: float, lines: list[str], first: str = "", others: str = "") -> None:
            height = 44 if first else 18 * len(lines) + 8
            canvas.rect(x, y, end - x, height, "frame", 4)
            for i, line in enumerate(lines):
                middle = y + height / 2 + 5 + 18 * (i - (len(lines) - 1) / 2)
                canvas.text(x + 8, middle, line, f"small {others if i else first}".strip())

        canvas.text(0, 18, "user", "strong")
        asked = textwrap.wrap(bug, int((whole - 60) / width_of("n", SMALL)))
        box(44, 0, whole, asked)
        y = 18.0 * len(asked) + 34
        canvas.text(0, y, "calls, day 2", "strong")
        canvas.text(right, y, "loop and tools, days 3, 4", "strong")
        y += 10
        for call, result in steps():
            about, lines = short(call, result)
            box(0, y, left, [call["name"], about] if about else [call["name"]], "strong")
            box(right, y, whole, lines, "mono", "mono")
            canvas.path([(left, y + 14), (right, y + 14)], "line", arrow=True)
            canvas.path([(right, y + 30), (left, y + 30)], "line", arrow=True)
            y += ROW
        box(0, y, left, textwrap.wrap(answer, 20))
        box(right, y, whole, ["hidden tests, day 6", verdict], "strong")
        canvas.path([(left, y + 22), (right, y + 22)], "line", arrow=True)
        y += 74
        canvas.text(0, y, "allowed tokens, day 1", "strong")
        pace = whole / len(text)
        canvas.text(whole, y, f"1 to {most:,}, log scale", "small", "end")
        x, y = 0.0, y + 12 + HIGH
        for token, allowed in tokens:
            tall = max(2.0, HIGH * math.log(allowed) / math.log(most))
            canvas.rect(x + 0.5, y - tall, pace * len(token) - 1, tall, "fill series-0")
            x += pace * len(token)
        canvas.text(0, y + 16, text, "mono" if wide else "mono small", length=x)

    said = "; ".join(f"{call['name']} {short(call, result)[0]}".strip() for call, result in steps())
    about = (
        f"The user reports a bug: {bug} The model calls tools: {said}. Then it answers: {answer} "
        f"Hidden tests: {verdict}. "
        f"In the call {text}, the grammar allows only one token in {forced} of {len(tokens)} steps, and up to {most:,} "
        "tokens in the path."
    )
    caption = (
        "The agent fixes a bug of day 6's suite: the model is scripted; the tools, the edit and the tests are real; "
        f"day 5 stores every message. In the call at the bottom, the grammar allows only one token in {forced} of "
        f"{len(tokens)} steps, and up to {most:,} in the path."
    )
    return at_both_widths(draw).figure("run-7", "A run of the coding agent", about, caption)
