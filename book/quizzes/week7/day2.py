"""The quiz of week 7, day 2."""

from typing import Any

from tests.week7.conversations import ASKED, calls, result

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "7.2.1",
    "A model calls two tools in one turn. In the text of the question, the two calls and their results, how often does "
    "`<|im_start|>user` occur, and how often does a line begin with `<tool_call>`?",
    why="The question is one turn, and both results are in another. Each call begins a line.",
    mistakes={
        "a-turn-for-each-result": "The model was trained with successive results in one turn.",
        "calls-on-one-line": "The template puts a line break between two calls.",
    },
)
def turns_of_results(program: Any) -> str:
    messages = [ASKED, calls("{}", "{}"), result("x = 1"), result("y = 2", 1)]
    text = program(messages, generate=False)
    return " and ".join(str(text.count(part)) for part in ("<|im_start|>user", "\n<tool_call>"))


@quiz.question(
    "7.2.2",
    'A call is `{"name": "write", "arguments": {"text": "</tool_call>"}}`. Its block arrives in two pieces; the second '
    "begins with `</tool`. Which events does the parser report?",
    why="The tag is in a JSON string, so it is part of that string, and each piece adds to the arguments.",
    mistakes={
        "tag-in-a-string": "The first `</tool_call>` is inside the string.",
        "arguments-at-the-end": "A client wants to show the first part of a long argument at once.",
    },
)
def a_tag_in_a_string(parser: Any) -> str:
    own = parser()
    block = '<tool_call>\n{"name": "write", "arguments": {"text": "</tool_call>"}}\n</tool_call>'
    at = block.index("</tool")
    events = [*own.add(block[:at].encode()), *own.add(block[at:].encode()), *own.finish()]
    return ", ".join(event.kind for event in events)


@quiz.question(
    "7.2.3",
    'The arguments so far are `{"path": "a.py", "li`. What can be shown?',
    why="An incomplete key says nothing yet, so the completion ends after the last value.",
    mistakes={
        "commas-kept": "JSON allows no comma before a closing brace.",
        "open-keys-closed": "A key without a value is not a member of an object.",
    },
)
def an_open_key(program: Any) -> str:
    found = program('{"path": "a.py", "li')
    return f"`{found}`"
