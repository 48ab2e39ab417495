"""Lines are broken between words, set in below their beginning, and never within a command that fits a line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.course.checkouts import FIXTURE

from tiny_llm_course.dev.transcripts import scenarios
from tiny_llm_course.terminal.beside import Flow
from tiny_llm_course.terminal.wrapping import cells, cut, excerpt, wrapped

DOCTOR = "○ PyTorch    not installed: its recorded answers stand in. To have it: pdm run pip install torch==2.13.0"
FILES = "✗ files      2 missing: a.py, tests/b.py. Fix: git restore src/tiny_llm/a.py tests/week1/test_day2.py"
WORD = re.compile(r'"[^"]*"|\S+')  # what stands in quotation marks is one
WHERE = "    code src/tiny_llm/attention.py:8 · read book/src/week1/day1.md · hint: pdm run hint 1.1.2"

BROKEN = {
    "what is left of a line with a mark goes below its text": (
        "✗ 1.1.2 Scaled dot-product attention: 24 of 38 checks failed",
        40,
        ["✗ 1.1.2 Scaled dot-product attention: 24", "  of 38 checks failed"],
    ),
    "a line that is set in goes on a little further in": (
        "    Your output equals what you get when the default scale is missing.",
        40,
        ["    Your output equals what you get when", "      the default scale is missing."],
    ),
    "below the text after a name": (
        "      case      float32, query 3 x 4, key 5 x 4, value 5 x 4, seed 1",
        60,
        ["      case      float32, query 3 x 4, key 5 x 4,", "                value 5 x 4, seed 1"],
    ),
    "but not where a name takes too much room": (
        "      case      float32, query 3 x 4, key 5 x 4, value 5 x 4, seed 1",
        40,
        ["      case      float32, query 3 x 4,", "        key 5 x 4, value 5 x 4, seed 1"],
    ),
    "a sentence begins at the margin": (
        "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2.",
        40,
        ["There is no task 1.1.9. Day 1 of week 1", "has 1.1.1, 1.1.2."],
    ),
    "a line of a list does not": (
        "1.2.1 Rotation angles: returned; your own code counts again",
        40,
        ["1.2.1 Rotation angles: returned; your", "  own code counts again"],
    ),
    "a list in a line is broken between its parts": (
        WHERE,
        80,
        ["    code src/tiny_llm/attention.py:8 · read book/src/week1/day1.md ·", "      hint: pdm run hint 1.1.2"],
    ),
    "a command stays with what announces it": (
        DOCTOR,
        80,
        [
            "○ PyTorch    not installed: its recorded answers stand in.",
            "             To have it: pdm run pip install torch==2.13.0",
        ],
    ),
    "and is set in less where it would not fit else": (
        DOCTOR,
        40,
        [
            "○ PyTorch    not installed: its recorded",
            "             answers stand in. To have",
            "             it:",
            "       pdm run pip install torch==2.13.0",
        ],
    ),
    "one that fits no line goes on after a backslash": (
        FILES,
        40,
        [
            "✗ files      2 missing: a.py,",
            "             tests/b.py. Fix:",
            "             git restore \\",
            "               src/tiny_llm/a.py \\",
            "               tests/week1/test_day2.py",
        ],
    ),
    "but stays whole if that does not help": (
        "  cp .tiny-llm/backups/20261121-161806/attention.py src/tiny_llm/attention.py",
        40,
        ["  cp .tiny-llm/backups/20261121-161806/attention.py src/tiny_llm/attention.py".strip()],
    ),
    "an option stays with its value, and a text in quotes is whole": (
        '$ pdm run generate "Once upon a time" --solution --seed 6 --max-tokens 36',
        60,
        ['$ pdm run generate "Once upon a time" --solution --seed 6 \\', "    --max-tokens 36"],
    ),
    "the sentence goes on after a command": (
        "You changed it. Put it aside: git stash push -- a.py and after pdm run sync: git stash pop. Nothing is done.",
        40,
        [
            "You changed it. Put it aside:",
            "git stash push -- a.py and after",
            "pdm run sync: git stash pop. Nothing is",
            "done.",
        ],
    ),
    "a word that is too long stays whole": (
        "The path /a/path/that/is/longer/than/any/line/can/be is long.",
        30,
        ["The path", "/a/path/that/is/longer/than/any/line/can/be", "is long."],
    ),
    "Chinese letters take two columns, and need no spaces between them": (
        "      got       这是一个很长的句子没有空格",
        30,
        ["      got       这是一个很长的", "        句子没有空格"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_line_is_broken(name):
    line, columns, expected = BROKEN[name]
    assert wrapped(line, columns) == expected


TRANSCRIPTS = [scenario.file for scenario in (*scenarios(FIXTURE), *scenarios())]
SAYINGS = sorted({line for file in TRANSCRIPTS for line in file.read_text(encoding="utf-8").splitlines()})


@pytest.mark.parametrize("columns", [20, 40, 57, 80, 120])
def test_nothing_is_lost_or_added(columns):
    for line in SAYINGS:
        parts = wrapped(line, columns)
        assert " ".join(" ".join(parts).replace(" \\ ", " ").split()) == " ".join(line.split())
        assert cells(line) > columns or parts == [line]
        # A mark stands before the word that it is for; a command with a word that is too wide stays whole.
        words = [WORD.findall(part.removeprefix("$ pdm run ").lstrip("✓✗○⇢~ ")) for part in parts]
        assert all(
            cells(part) <= columns or len(its) == 1 or max(map(cells, its)) >= columns
            for part, its in zip(parts, words, strict=True)
        ), parts


def failing_tasks():
    """What the recorded sessions say of each failing task."""
    for file in TRANSCRIPTS:
        blocks = re.findall(r"^✗ .*\n(?:    .*\n)*", file.read_text(encoding="utf-8"), re.MULTILINE)
        yield from ((file.stem, block.splitlines()) for block in blocks)


def test_a_failing_task_fits_a_screen():
    found = list(failing_tasks())
    assert len(found) > 25
    for name, lines in found:
        code = re.compile(r" {6}(\||\S+:\d+  )")
        rows = [row for line in lines for row in (excerpt if code.match(line) else wrapped)(line, 80)]
        assert len(rows) <= 25, (name, rows)


@pytest.mark.parametrize(
    ("line", "columns", "expected"),
    [
        ("x = 1", 5, ["x = 1"]),
        ("      | 0.1, 0.2, 0.3", 16, ["      | 0.1, 0.…"]),
        ("      a.py:12  return x @ w", 24, ["      a.py:12", "        return x @ w"]),
        ("      a.py:12  return x @ w", 18, ["      a.py:12", "        return x…"]),
        ("      | \x1b[31ma\tb\x1b[0m\x1b[2J", 20, ["      | a       b"]),
        ("这是一个", 6, ["这是…"]),
        ("这是一个", 7, ["这是一…"]),
    ],
)
def test_code_is_cut_after_its_place(line, columns, expected):
    assert excerpt(line, columns) == expected
    assert cut(line, 1000) == line


def test_columns_are_counted_as_a_terminal_does():
    assert [cells(text) for text in ("", "abc", "✓ é", "e\u0301", "模型", "\u200b", "ﬁ")] == [0, 3, 3, 1, 4, 0, 1]


TEXT = "Once upon a time, there was a little\n\n  frog.  It\tsaid 你好世界, and then antidisestablishmentarianism!"


@given(st.lists(st.integers(1, 9)), st.integers(4, 60))
def test_streamed_text_is_broken_between_words_however_it_comes(cuts, columns):
    def flowed(pieces):
        said = []
        flow = Flow(said.append, columns)
        for piece in pieces:
            flow.add(piece)
        flow.end()
        return "".join(said)

    pieces, rest = [], TEXT
    for length in cuts:
        pieces.append(rest[:length])
        rest = rest[length:]
    text = flowed([*pieces, rest])
    assert text == flowed([TEXT])
    assert "".join(text.split()) == "".join(TEXT.split())
    lines = [line.expandtabs(8) for line in text.split("\n")]
    assert max(map(cells, lines)) <= columns
    if columns >= 29:
        for word in TEXT.replace("你好世界", " ").split():
            assert word in text


def test_a_word_is_shown_once_it_has_ended():
    said = []
    flow = Flow(said.append, 20)
    for piece in ("On", "ce up", "on", " a", "\n"):
        flow.add(piece)
    assert said == ["Once", " upon", " a\n"]
    flow.add("frog 你")
    assert said[-1] == "frog 你"
    flow.end()


def test_without_a_terminal_text_is_handed_on_as_it_comes():
    said = []
    flow = Flow(said.append, None)
    flow.add("On")
    flow.end()
    assert said == ["On"]
