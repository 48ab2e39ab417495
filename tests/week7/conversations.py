"""Conversations with tools, and what Qwen3's template makes of them, for the tests and known programs of task 7.2.1."""

import functools
import json
from pathlib import Path
from typing import Any

READ = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Return a file's text, from line `first` on.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "first": {"type": "integer"}},
            "required": ["path"],
        },
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "caf\u00e9",
        "description": "<b> \u72d7 & \"'",
        "parameters": {"type": "object", "properties": {}},
    },
}


def user(text: str | None) -> dict[str, Any]:
    """Return a question."""
    return {"role": "user", "content": text}


def system(text: str | None) -> dict[str, Any]:
    """Return a system message."""
    return {"role": "system", "content": text}


def result(text: str | None, number: int = 0) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def calls(*arguments: Any, content: str | None = None, name: str = "read_file") -> dict[str, Any]:
    """Return an assistant's message with calls of one tool."""
    found = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": each}}
        for number, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": content, "tool_calls": found}


def answer(text: str, thought: str | None = None) -> dict[str, Any]:
    """Return an assistant's answer."""
    return {"role": "assistant", "content": text} | ({} if thought is None else {"reasoning_content": thought})


A, B = '{"path": "a.py"}', '{"path":"b.py",  "first": 3}'
ASKED = user("What is in a.py?")
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "a question": [ASKED],
    "a system message": [system("Be brief."), ASKED],
    "an empty system message": [system(""), ASKED],
    "two system messages": [system("Be brief."), ASKED, answer("x = 1"), system("Be polite."), user("And b.py?")],
    "one call": [ASKED, calls(A), result("x = 1")],
    "one call and an answer": [ASKED, calls(A), result("x = 1"), answer("It sets x to 1.")],
    "an empty text before a call": [ASKED, calls(A, content=""), result("x = 1")],
    "text before a call": [ASKED, calls(A, content="Let me look."), result("x = 1")],
    "two calls": [ASKED, calls(A, B), result("x = 1"), result("y = 2", 1)],
    "text before two calls": [ASKED, calls(A, B, content="I read both."), result("x = 1"), result("y = 2", 1)],
    "arguments as an object": [ASKED, calls({"path": "caf\u00e9.py", "first": 3}), result("x = 1")],
    "no arguments": [user("What time is it?"), calls("{}", name="now"), result("12:00")],
    "calls one after the other": [
        ASKED,
        calls(A),
        result("no such file"),
        calls(B),
        result("y = 2"),
        answer("y is 2."),
    ],
    "a result that is empty": [ASKED, calls(A, B), result(""), result(None, 1)],
    "a result of several lines": [ASKED, calls(A), result("x = 1\n\ny = 2\n")],
    "a result without a call": [result("x = 1"), ASKED],
    "results only": [result("x = 1"), result("y = 2", 1)],
    "a thought of the past": [ASKED, answer("<think>\nEasy.\n</think>\n\nx = 1"), user("And b.py?")],
    "a thought after the question": [
        ASKED,
        calls(A, content="<think>\nI read it.\n</think>\n\nWait."),
        result("x = 1"),
    ],
    "a thought and no text": [ASKED, calls(A, content="<think>\nI read it.\n</think>\n\n"), result("x = 1")],
    "thoughts of two steps": [
        ASKED,
        calls(A, content="<think>\nFirst a.\n</think>\n\n"),
        result("x = 1"),
        calls(B, content="Now b."),
        result("y = 2"),
    ],
    "a thought in its own field": [ASKED, answer("x = 1", "\nEasy.\n"), user("So?"), answer("\n  Yes.", " Sure.\t\n")],
    "an empty thought in its own field": [ASKED, answer("</think>x", ""), user("So?"), answer("Yes.", "")],
    "half a thought": [ASKED, answer("Easy.\n</think>\n\nx = 1")],
    "an unfinished thought": [ASKED, answer("<think>\nHm")],
    "a last answer": [ASKED, answer("\n\nx = 1\n")],
    "a question that quotes a result": [
        ASKED,
        answer("<think>\nEasy.\n</think>\n\nx = 1"),
        user("<tool_response>\nx = 2\n</tool_response>"),
        answer("<think>\nAgain.\n</think>\n\nx = 2"),
        user("<tool_response> Is that all?"),
    ],
    "a result as a user's message": [
        ASKED,
        answer("<think>\nEasy.\n</think>\n\nx = 1"),
        user("<tool_response>\nx = 2\n</tool_response>"),
    ],
    "no question": [answer("<think>\nHm.\n</think>\n\nHello."), answer("Anybody?")],
    "a call without a question": [system("Begin."), calls(A), result("x = 1")],
    "odd text": [
        user("<|im_end|> {{ x }} \u72d7\n\t\\"),
        answer('"\\n" </tool_call>'),
        user(""),
        answer("<think>\nHm.\n</think>\n\nWell."),
        user("And what ends with </tool_response>"),
    ],
    "an empty list of calls": [ASKED, calls(content="Nothing to do.")],
}
TOOLS: dict[str, list[dict[str, Any]]] = {"no tools": [], "a tool": [READ], "two tools": [READ, TIME]}


@functools.cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)  # Jinja's own escapes HTML
    return environment.from_string(Path(__file__).with_name("qwen3.jinja").read_text(encoding="utf-8"))


def expected_text(messages: list[dict[str, Any]], tools: Any, generate: bool = True, thinking: bool = True) -> str:
    """Return what Jinja makes of a conversation."""
    names = {"messages": messages, "tools": tools, "add_generation_prompt": generate, "enable_thinking": thinking}
    text: str = _template().render(names)
    return text
