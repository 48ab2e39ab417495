"""Task 7.3.3, a transcript, checked by what other programs read in the file, also after a crash."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiny_llm.agent import transcript
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import awkward_texts

ENTRIES = [
    {"message": {"role": "user", "content": "What is in a.py?"}},
    {
        "message": {
            "role": "tool",
            "tool_call_id": "1",
            "content": "x = 1\ny = 2\r\n\x0c\x1c\x85\u2028\u2029 \u72d7 \U0001f415",
        }
    },
    {"stop": "done", "detail": "", "steps": 2, "tokens": 31},
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def written(path, entries, case):
    with noted(case):
        file = transcript.Transcript(path)
        for entry in entries:
            file.append(entry)
        file.close()


def read(path, case):
    with noted(case):
        return transcript.Transcript.read(path)


def lines_of(path):
    """The entries as another program reads them: by line feeds."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_task_3_transcript_lines(path):
    """Each entry is one line that ends with a line feed."""
    case = "three entries, one with line breaks of all kinds"
    written(path, ENTRIES, case)
    data = path.read_bytes()
    fail_if_different("the number of line feeds is wrong", 3, data.count(b"\n"), case)
    fail_if_different("the last line does not end", True, data.endswith(b"\n"), case)
    fail_if_different("the entries are different", ENTRIES, lines_of(path), case)
    fail_if_different("what was read is different", ENTRIES, read(path, case), case)


def test_task_3_transcript_is_written_at_once(path):
    """Another process sees each entry before the file is closed."""
    case = "after the first append, the file still open"
    with noted(case):
        file = transcript.Transcript(path)
        file.append(ENTRIES[0])
    found = path.read_bytes()
    file.close()
    fail_if_different("the file's entries are different", 1, found.count(b"\n"), case)


def test_task_3_transcript_continues(path):
    case = "two entries, and a third one by a second Transcript"
    written(path, ENTRIES[:2], case)
    written(path, ENTRIES[2:], case)
    fail_if_different("what was read is different", ENTRIES, read(path, case), case)


def test_task_3_transcript_empty(path):
    case = "a new file without entries"
    written(path, [], case)
    fail_if_different("the file is not empty", b"", path.read_bytes(), case)
    fail_if_different("what was read is different", [], read(path, case), case)


@pytest.mark.parametrize("size", [1, 7, 30])
def test_task_3_transcript_half_a_line(path, size):
    """A killed process leaves the beginning of an entry, here also in the middle of a character."""
    case = f"two entries and {size} bytes of a third one"
    whole = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in ENTRIES[:2]).encode()
    before = whole + '{"message": "\u72d7\u72d7\u72d7\u72d7\u72d7\u72d7'.encode()[:size]
    path.write_bytes(before)
    fail_if_different("what was read is different", ENTRIES[:2], read(path, case), case)
    fail_if_different("reading has changed the file", before, path.read_bytes(), case)
    written(path, [], f"{case}, opened and closed")
    fail_if_different("the file's bytes are different", whole, path.read_bytes(), f"{case}, opened and closed")
    written(path, ENTRIES[2:], f"{case}, continued")
    fail_if_different("what was read is different", ENTRIES, read(path, f"{case}, continued"), f"{case}, continued")
    fail_if_different("the file's entries are different", ENTRIES, lines_of(path), f"{case}, continued")


def test_task_3_transcript_half_of_the_first_line(path):
    case = "half of the first entry, then a whole one"
    path.write_bytes(b'{"mess')
    fail_if_different("what was read is different", [], read(path, case), case)
    written(path, ENTRIES[:1], case)
    fail_if_different("what was read is different", ENTRIES[:1], read(path, case), case)


def test_task_3_transcript_of_another_program(path):
    """JSON with characters as they are: U+2028 ends no line."""
    case = "lines with U+2028 and \u72d7 as they are"
    path.write_bytes("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in ENTRIES).encode())
    fail_if_different("what was read is different", ENTRIES, read(path, case), case)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b'{}\n{"a": \n{}\n', "2"),
        (b"[]\n", "1"),
        (b"{}\n\n{}\n", "2"),
        (b"{}\n{}\n\xff\n", "3"),
        (b"{}\nnull\n{", "2"),
        (b'{}\n{"a": "\xed\xa0\xbd"}\n', "2"),
        ("{}".encode("utf-16-le") + b"\n", "1"),
    ],
    ids=["half a line in the middle", "a list", "an empty line", "no UTF-8", "null", "half a pair", "UTF-16"],
)
def test_task_3_transcript_refuses_damage(tmp_path, monkeypatch, text, number):
    monkeypatch.chdir(tmp_path)  # a message may give the path, whose folders have numbers, too
    path = Path("run.jsonl")
    path.write_bytes(text)
    with raises_value_error(f"a file {text!r}", number):
        transcript.Transcript.read(path)


def test_task_3_transcript_sweep(path):
    """Every kind of text, with half a surrogate pair as well; many entries; a long one."""
    texts = [*awkward_texts(), "\ud83d", "a\udc15b"]
    entries = [{"message": {"role": "tool", "content": text}} for text in texts]
    entries += [{"n": number} for number in range(300)] + [{"message": "dog " * 50_000}]
    case = f"{len(entries)} entries, with every kind of text"
    written(path, entries, case)
    try:
        path.read_bytes().decode()
    except UnicodeDecodeError as error:
        fail(Kind.VALUES, f"the file is not UTF-8, first at byte {error.start}", case)
    found = read(path, case)
    if found != entries:
        at = next((i for i, (a, b) in enumerate(zip(entries, found, strict=False)) if a != b), len(found))
        fail(Kind.VALUES, f"what was read is different, first at entry {at} of {len(entries)}", case)


@property_test
@given(
    st.lists(
        st.dictionaries(st.text(max_size=3), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=2),
        max_size=4,
    ),
    st.integers(0, 40),
)
def test_task_3_transcript_cut_anywhere(tmp_path_factory, entries, missing):
    """Wherever the file is cut, the entries before the cut can be read."""
    path = tmp_path_factory.mktemp("cut") / "run.jsonl"
    case = f"{len(entries)} entries, the last {missing} bytes cut off"
    written(path, entries, case)
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - missing)])
    whole = path.read_bytes().count(b"\n")
    fail_if_different("what was read is different", entries[:whole], read(path, case), case)
