"""Task 7.2.1, messages and tools as text, checked against texts written out and against Jinja."""

import itertools
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.conversations import (
    ASKED,
    CONVERSATIONS,
    READ,
    TIME,
    TOOLS,
    A,
    B,
    answer,
    calls,
    expected_text,
    result,
    system,
    user,
)

from tiny_llm.tools import template
from tiny_llm_course.testkit.errors import fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import again, awkward_texts, same_text

ASSISTANT = "<|im_start|>assistant\n"


def check(messages, tools, name, expected=None, **options):
    told = "".join(f", {key}={value}" for key, value in options.items())
    case = f"{name}, {len(tools)} tool{'' if len(tools) == 1 else 's'}{told}"
    copies = deepcopy((messages, tools))
    found = again(lambda: template.render_messages(messages, tools, **options), case)
    same_text(found, expected_text(messages, tools, **options) if expected is None else expected, case)
    fail_if_different("the messages or tools were changed", copies, (messages, tools), case)


def test_task_1_render_a_question():
    """Without tools and calls, it is the ChatML of week 1."""
    expected = "<|im_start|>user\nWhat is in a.py?<|im_end|>\n"
    check([ASKED], [], "a question", expected, generate=False)
    check([ASKED], [], "a question", expected + ASSISTANT)
    check([ASKED], [], "a question", expected + ASSISTANT + "<think>\n\n</think>\n\n", thinking=False)


def test_task_1_render_a_round():
    """A question, two calls, their results."""
    expected = (
        "<|im_start|>user\nWhat is in a.py?<|im_end|>\n"
        "<|im_start|>assistant\nI read both.\n"
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read_file", "arguments": {"path":"b.py",  "first": 3}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\nx = 1\n</tool_response>\n"
        "<tool_response>\ny = 2\n</tool_response><|im_end|>\n"
    )
    name = "text before two calls"
    check(CONVERSATIONS[name], [], name, expected + ASSISTANT)


def test_task_1_render_tools():
    """Two tools, one of them with characters that JSON and HTML could escape."""
    lines = (
        '{"type": "function", "function": {"name": "read_file", "description": "Return a file\'s text, from line '
        '`first` on.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "first": {"type": '
        '"integer"}}, "required": ["path"]}}}\n'
        '{"type": "function", "function": {"name": "caf\u00e9", "description": "<b> \u72d7 & \\"\'", "parameters": '
        '{"type": "object", "properties": {}}}}'
    )
    expected = (
        f"<|im_start|>system\nBe brief.\n\n{template.TOOLS_BEGIN}\n{lines}{template.TOOLS_END}<|im_end|>\n"
        "<|im_start|>user\nWhat is in a.py?<|im_end|>\n"
    )
    check([system("Be brief."), ASKED], [READ, TIME], "a system message", expected, generate=False)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_task_1_render_conversation(name):
    for tools in TOOLS.values():
        check(CONVERSATIONS[name], tools, name)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_task_1_render_prompt(name):
    """Without the assistant's turn at the end, and with an empty thought in it."""
    check(CONVERSATIONS[name], TOOLS["a tool"], name, generate=False)
    check(CONVERSATIONS[name], [], name, thinking=False)


def test_task_1_render_no_messages():
    check([], [], "no messages", ASSISTANT)
    check([], TOOLS["a tool"], "no messages")
    # The user's message is last: whether one without text is a question is not promised.
    nothing = [system(None), calls(A), result(None), user(None)]
    for tools in TOOLS.values():
        check(nothing, tools, "messages whose content is None")


def test_task_1_render_sweep():
    """Every kind of text as a question, as the text before a call, as a result and as an answer."""
    for text in awkward_texts()[::2]:
        messages = [system(text), user(text), calls(A, content=text), result(text), answer(text), user(text)]
        check(messages, TOOLS["a tool"], f"all texts {ascii(text)[:60]}")


MESSAGES = st.one_of(
    st.builds(user, st.sampled_from(["Hi", "", "<tool_response>x</tool_response>", "<tool_response>", "a\n"])),
    st.builds(system, st.sampled_from(["Be brief.", ""])),
    st.builds(result, st.sampled_from(["x = 1", ""])),
    st.builds(answer, st.sampled_from(["Yes.", "", "<think>\n\nHm.\n</think>\n\nSo", "\na</think>\n", "<think>"])),
    st.builds(answer, st.sampled_from(["Yes.", "\nb</think>"]), st.sampled_from(["", "\nHm.\n"])),
    st.builds(lambda *args, content: calls(*args, content=content), st.just(A), content=st.sampled_from([None, "So"])),
    st.builds(lambda *args, content: calls(*args, content=content), st.just(A), st.just(B), content=st.just("")),
)


@property_test
@given(st.lists(MESSAGES, min_size=1, max_size=7), st.sampled_from(sorted(TOOLS)), st.booleans(), st.booleans())
def test_task_1_render_any_order(messages, tools, generate, thinking):
    """Messages of all roles, in any order."""
    roles = ", ".join(message["role"] for message in messages)
    check(messages, TOOLS[tools], roles, generate=generate, thinking=thinking)


def test_task_1_render_grows():
    """Each step of a loop only adds to the text before it, so that a prefix cache keeps all keys and values."""
    messages = [
        system("Be brief."),
        ASKED,
        calls(A, content="Let me look."),
        result("x = 1"),
        calls(B),
        result("y = 2"),
    ]
    texts = [
        again(
            lambda n=n: template.render_messages(messages[:n], [READ], generate=False), f"the first {n} of 6 messages"
        )
        for n in (2, 4, 6)
    ]
    for shorter, longer in itertools.pairwise(texts):
        same_text(longer[: len(shorter)], shorter, "the text of two messages more, cut to the length before")
