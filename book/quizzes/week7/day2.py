"""The quiz of week 7, day 2."""

from typing import Any

from tests.week7.conversations import ASKED, calls, result

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "7.2.1",
    "A model calls two tools in one turn. How often does `<|im_start|>user` occur in the text of the question, the two "
    "calls and their results?",
    why="Once for the question, and once for both results.",
    mistakes={"a-turn-for-each-result": "Successive results share a turn."},
)
def turns_of_results(program: Any) -> str:
    messages = [ASKED, calls("{}", "{}"), result("x = 1"), result("y = 2", 1)]
    return str(program(messages, generate=False).count("<|im_start|>user"))


@quiz.question(
    "7.2.2",
    'A call is `{"name": "write", "arguments": {"text": "</tool_call>"}}`. Which events does the parser report for the '
    "whole block?",
    why="The tag is in a JSON string, so it is text of that string.",
    mistakes={"tag-in-a-string": "The first `</tool_call>` is inside the string."},
)
def a_tag_in_a_string(parser: Any) -> str:
    own = parser()
    block = '<tool_call>\n{"name": "write", "arguments": {"text": "</tool_call>"}}\n</tool_call>'
    events = [*own.add(block.encode()), *own.finish()]
    return ", ".join(event.kind for event in events)


@quiz.question(
    "7.2.3",
    'The arguments so far are `{"path": "a.py", "li`. What can be shown?',
    why="An open key says nothing yet, so the completion ends after the last value.",
    mistakes={
        "commas-kept": "JSON allows no comma before a closing brace.",
        "open-keys-closed": "A key alone is no member of an object.",
    },
)
def an_open_key(program: Any) -> str:
    found = program('{"path": "a.py", "li')
    return f"`{found}`"
