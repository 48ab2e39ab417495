"""Day 2's figure, listing and widget: an answer with a tool call, token by token and character by character."""

import textwrap
from typing import Any

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import width_of
from tiny_llm_course.dev.book.html import element, table, visible
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.tokenizer import ByteLevelBPE  # noqa: E402
from tiny_llm_solution.tools.parser import ToolCallParser  # noqa: E402
from tiny_llm_solution.tools.partial import complete_json  # noqa: E402
from tiny_llm_solution.tools.template import render_messages  # noqa: E402

QUESTION = "What color is the dog in dog.py?"
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Return a file's text.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
CALL = '{"name": "read_file", "arguments": {"path": "dog.py"}}'
ANSWER = f"Let me look.\n<tool_call>\n{CALL}\n</tool_call>"
# The widget's answers.
ANSWERS = {
    "text and a call": ANSWER,
    "two calls": '<tool_call>\n{"name": "read_file", "arguments": {"path": "dog.py"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "add", "arguments": {"a": [1, 20], "b": -0.5}}\n</tool_call>',
    "a tag in a string": '<tool_call>\n{"name": "write", "arguments": {"text": "</tool_call> \\"b\\""}}\n</tool_call>',
    "malformed": '<tool_call>\n{"name": "read_file", "arguments": {"path": "dog.py"\n</tool_call>',
    "no call": "If a < b, write <tool> first.",
}


def generated_parts() -> Parts:
    """Return the figure, the prompts and the widget."""
    return {"tokens": tokens(), "prompt": prompt(), "second-prompt": second_prompt(), "call-stream": call_stream()}


def tokens() -> str:
    """Draw the tokens of an answer, and below each what the parser reports after it."""
    tokenizer = ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")
    parser, found = ToolCallParser(), []
    for token in tokenizer.encode(ANSWER):
        data = tokenizer.token_bytes[token]
        events = parser.add(data)
        found.append((visible(data.decode(errors="replace")), [_said(*event) for event in events]))

    def draw(canvas: Canvas) -> None:
        x, y, high = 0.0, 0.0, 46.0
        for word, events in found:
            below = events or ["\N{EN DASH}"]
            broad = 6.0 * word.count("\N{OPEN BOX}")  # wider than a letter
            wide = max(width_of(word) + broad, *(width_of(said) for said in below), 14.0) + 10
            if x + wide > canvas.width - 4:
                x, y = 0.0, y + high + 10
            canvas.rect(x, y, wide, 22, "frame", 3)
            canvas.text(x + wide / 2, y + 16, word, "", "middle")
            canvas.text(x + wide / 2, y + 38, " ".join(below), "strong" if events else "small", "middle")
            x += wide + 4

    silent = sum(not events for _, events in found)
    about = (
        f"{len(found)} tokens. The tokens of the text report that text, and the tokens of the tag report nothing. The "
        "other events are the name read_file, the arguments in pieces, and end."
    )
    caption = (
        f"An answer of {len(found)} tokens of the course's tokenizer. Below each token are the events that this "
        f"chapter's parser reports after it; a dash means no event. For {silent} of the tokens, there is no event, "
        "because they are, or could be, part of a tag or of the JSON around the name and the arguments. "
        "\N{MIDDLE DOT} is a line break, and \N{OPEN BOX} is a space."
    )
    return at_both_widths(draw).figure("tokens-7-2", "Events of the parser, token by token", about, caption)


def _said(kind: str, text: str, index: int) -> str:
    return {"name": f"name: {text}", "end": "end"}.get(kind, visible(text))


def prompt() -> str:
    """Quote the text that the model reads before its first answer."""
    return _quoted(render_messages([{"role": "user", "content": QUESTION}], [TOOL]))


def second_prompt() -> str:
    """Quote what is added once the call has a result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    before = render_messages(messages, [TOOL])
    function = {"name": "read_file", "arguments": '{"path": "dog.py"}'}
    messages.append({"role": "assistant", "content": "Let me look.", "tool_calls": [{"function": function}]})
    messages.append({"role": "tool", "content": 'color = "blue"'})
    return _quoted(render_messages(messages, [TOOL]).removeprefix(before))


def _quoted(text: str) -> str:
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 100) or [""]]
    return "\n".join(["```text", *lines, "```", ""])


def call_stream() -> str:
    """Return the widget: after each character what is new, and the arguments completed."""
    data = []
    for name, text in ANSWERS.items():
        parser, steps = ToolCallParser(), []
        arguments: dict[int, str] = {}
        for number in range(len(text) + 1):
            events = parser.add(text[number].encode()) if number < len(text) else parser.finish()
            for kind, said, index in events:
                if kind == "arguments":
                    arguments[index] = arguments.get(index, "") + said
            shown = [[kind, _short(said) if kind == "error" else said, index] for kind, said, index in events]
            steps.append([shown, complete_json(arguments[max(arguments)]) if arguments else ""])
        data.append({"name": name, "text": text, "steps": steps})
    rows = []
    for event in _events(ANSWERS["text and a call"]):
        rows.append([event[0], event[1] or "\N{EN DASH}"])
    return element("call-stream", {"answers": data}, table("The events of the first answer", ["event", "text"], rows))


def _short(error: str) -> str:
    """Return an error without what differs between versions of Python."""
    return error.partition(":")[0].rstrip(".")


def _events(text: str) -> list[tuple[str, str]]:
    parser = ToolCallParser()
    return [(kind, said) for kind, said, _ in [*parser.add(text.encode()), *parser.finish()]]
