"""Task 7.2.2, tool calls in a stream, checked against a reference that reads the whole answer again for each piece."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.conversations import calls, expected_text, user
from tests.week7.lines import same_lines
from tests.week7.streamed import ANSWERS, BYTES, READ, actual_lines, answers, expected_lines, pieces_of

from tiny_llm.tools import parser
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import again, awkward_texts, same_pieces


def check(pieces, case):
    found = again(lambda: actual_lines(parser.ToolCallParser, pieces), case)
    same_lines(found, expected_lines(pieces), case, "event")


@pytest.mark.parametrize("name", ANSWERS)
def test_task_2_parser_whole(name):
    """The whole answer in one piece."""
    check([ANSWERS[name].encode()], f"{name}: {ascii(ANSWERS[name])[:80]}")


@pytest.mark.parametrize("name", [*ANSWERS, *BYTES])
def test_task_2_parser_byte_by_byte(name):
    data = answers()[name]
    check(pieces_of(data, 1), f"{name}, byte by byte: {ascii(data.decode(errors='replace'))[:70]}")


@pytest.mark.parametrize("name", [*ANSWERS, *BYTES])
def test_task_2_parser_two_pieces(name):
    """Cut in two at every place."""
    data = answers()[name]
    for at in range(1, len(data)):
        check([data[:at], data[at:]], f"{name}, cut after byte {at}: {ascii(data.decode(errors='replace'))[:70]}")


def test_task_2_parser_empty_pieces():
    data = READ.encode()
    check([b"", data[:20], b"", b"", data[20:], b""], "one call, with empty pieces between")
    check([], "no piece at all")


def test_task_2_parser_sweep():
    """Pieces of any size; every kind of text before, inside and after a call."""
    for name, data in answers().items():
        for size in (2, 3, 4, 5, 7, 11, 16):
            check(pieces_of(data, size), f"{name}, {size} bytes at a time")
    for number, text in enumerate(awkward_texts()[::3]):
        arguments = json.dumps({"text": text}, ensure_ascii=number % 2 == 0)
        block = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
        data = f"{text}{block}{text}".encode()
        check(
            pieces_of(data, 1 + number % 9),
            f"text, call and text, each {ascii(text)[:50]}, {1 + number % 9} bytes at a time",
        )


@property_test
@given(
    st.lists(
        st.sampled_from([READ, "<tool_call>", "</tool_call>", "<", " ", "\n", "a", '"', "{", "}", "\\", ",", "\u00e9"]),
        max_size=9,
    ),
    st.integers(1, 9),
)
def test_task_2_parser_any_text(parts, size):
    """Whatever the model writes, a reading of it in pieces is the reading of the whole."""
    text = "".join(parts)
    check(pieces_of(text.encode(), size), f"{ascii(text)[:80]}, {size} bytes at a time")


@property_test
@given(
    st.dictionaries(
        st.text('ab\u72d7"\\\n', max_size=4), st.one_of(st.integers(), st.text('}{"<\\', max_size=5)), max_size=3
    ),
    st.integers(1, 3),
    st.sampled_from([None, "So.", "Let me look: a < b"]),
)
def test_task_2_parser_reads_what_the_template_writes(arguments, count, content):
    """Rendering calls as Qwen3's template does, and parsing the text, gives the calls back."""
    written = [json.dumps(arguments, ensure_ascii=False)] * count
    message = calls(*written, content=content)
    start = len(expected_text([user("Go.")], []))
    text = expected_text([user("Go."), message, user("And?")], [], False)[start:].partition("<|im_end|>")[0]
    case = f"{count} calls rendered, arguments {ascii(written[0])[:60]}"
    with noted(case):
        own = parser.ToolCallParser()
        events = [*own.add(text.encode()), *own.finish()]
        found = [call.arguments for call in own.calls]
    same_pieces(found, written, case, "arguments")
    same_pieces(["".join(text for kind, text, _ in events if kind == "text")], [content or ""], case, "texts")


def test_task_2_parser_two_answers():
    """One parser's state is not another's."""
    case = "two parsers in turns"
    with noted(case):
        first, second = parser.ToolCallParser(), parser.ToolCallParser()
        for byte in READ.encode():
            first.add(bytes([byte]))
            second.add(b"x")
        found = len(first.calls), len(second.calls)
    fail_if_different("the numbers of calls are wrong", (1, 0), found, case, size=1000)
