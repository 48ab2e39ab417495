"""Task 7.4.2, reading a range of lines, against a formula that splits the whole file."""

import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.read_files import TEXTS, formula, in_a_file

from tiny_llm.workspace import reading
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def check_read(content, case, *arguments, **named):
    given_words = ", ".join([*map(str, arguments), *(f"{name}={value}" for name, value in named.items())])
    case = f"{case}, read_range({', '.join(filter(None, ['file', given_words]))})"
    with noted(case):
        actual = in_a_file(content, lambda file: reading.read_range(file, *arguments, **named))
    expected = formula(content, *arguments, **named)
    if type(actual) is not str:
        fail(Kind.TYPE, f"returned {type(actual).__name__}, expected a str", case)
    if actual != expected:
        pairs = zip(expected.split("\n"), actual.split("\n"), strict=False)
        at, wanted, got = next(((i, x, y) for i, (x, y) in enumerate(pairs) if x != y), (0, expected, actual))
        lines = (f"expected  {short(wanted)}", f"got       {short(got)}")
        fail(Kind.VALUES, f"line {at + 1} of the result is wrong", case, *lines, size=len(content))


def short(text):
    return repr(text) if len(text) < 90 else f"{text[:40]!r} ... {text[-40:]!r}, {len(text)} characters"


@pytest.mark.parametrize("name", TEXTS)
def test_task_2_read_a_whole_file(name):
    check_read(TEXTS[name], f"a file with {name}")


@pytest.mark.parametrize(
    ("first", "last"), [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 9), (2, None), (4, None), (9, 9)]
)
def test_task_2_read_a_range(first, last):
    check_read(TEXTS["three lines"], "a file of three lines", first, last)


@pytest.mark.parametrize("first", [1, 2])
def test_task_2_read_a_range_of_a_last_line(first):
    check_read(TEXTS["no line break at the end"], "two lines without a line break at the end", first, 2)


@pytest.mark.parametrize("max_chars", [1, 9, 12, 13, 24, 25, 26, 38, 39, 1000])
def test_task_2_read_no_more_characters(max_chars):
    check_read(TEXTS["three lines"], "a file of three lines", max_chars=max_chars)


def test_task_2_read_counts_characters():
    """Accents have one character, and two bytes."""
    content = "\u00e9\u00e9\u00e9\n".encode() * 4
    for most in (24, 35, 36, 40):
        check_read(content, "four lines of three accents", max_chars=most)


@pytest.mark.parametrize("max_chars", [1, 2000, 2400, 16_000])
def test_task_2_read_long_lines(max_chars):
    check_read(TEXTS["long lines"], "30 lines of 1,800 bytes", 5, max_chars=max_chars)


def test_task_2_read_goes_on():
    """The last line says where to go on, until the file has been read."""
    content = b"".join(b"line %d\n" % i for i in range(1, 60))
    first, parts, case = 1, [], "59 lines, 150 characters at a time"
    for _ in range(60):
        with noted(case):
            result = in_a_file(content, lambda file, first=first: reading.read_range(file, first, max_chars=150))
        *lines, end = result.split("\n")
        parts += lines
        if end == "[end of file]":
            break
        first = int(end.rpartition("=")[2].rstrip("]"))
    expected = [f"{i:6}  line {i}" for i in range(1, 60)]
    fail_if_different("the lines are wrong", expected, parts, case)


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"a\0b\n", ()),
        (b"a\nb\0\n", ()),
        (b"\0", ()),
        (b"a\nb\0\nc\n", (3,)),
        (b"a\n\0\n", (1, 2)),
        (b"a\0\n", (9,)),
        (b"a\n\0\nb\n", (1, None, 1)),
        (b"x" * 999 + b"\0x\n", ()),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_task_2_read_refuses_what_is_no_text(content, arguments):
    case = f"content {content!r}, arguments {arguments}"
    with raises_value_error(case):
        in_a_file(content, lambda file: reading.read_range(file, *arguments))


@pytest.mark.parametrize("arguments", [(1, 1), (1, 2), (1, 2, 5), (1, None, 5)])
def test_task_2_read_does_not_look_further(arguments):
    """A zero byte after the range, or after the line that does not fit, is not seen."""
    check_read(b"one\ntwo\n\0\n", "a zero byte in line 3", *arguments)


def test_task_2_read_from_the_current_position():
    """What is before the descriptor's position does not count."""
    case = "a file of three lines, whose descriptor is at the second one, read_range(file)"

    def use(file):
        os.lseek(file, 4, os.SEEK_SET)
        return reading.read_range(file)

    with noted(case):
        actual = in_a_file(TEXTS["three lines"], use)
    fail_if_different("the result is wrong", formula(b"two\nthree\n"), actual, case)


@pytest.mark.parametrize("arguments", [(0,), (-1,), (2, 1), (3, 1), (1, 0), (3, 2)])
def test_task_2_read_refuses_no_range(arguments):
    with raises_value_error(f"arguments {arguments}"):
        in_a_file(TEXTS["three lines"], lambda file: reading.read_range(file, *arguments))


def test_task_2_read_leaves_the_file_open():
    def use(file):
        with noted("a file of three lines"):
            reading.read_range(file)
        os.fstat(file)  # raises if it is closed
        return os.lseek(file, 0, os.SEEK_SET)

    case = "a file of three lines"
    try:
        in_a_file(TEXTS["three lines"], use)
    except OSError:
        fail(Kind.VALUES, "the descriptor has been closed", case)


@pytest.mark.parametrize("kind", ["one line", "many lines"])
def test_task_2_read_in_little_memory(kind):
    """A file of 16 MB."""
    content = b"x" * 16_000_000 if kind == "one line" else b"0123456\n" * 2_000_000
    peak = position = 0

    def use(file):
        nonlocal peak, position
        tracemalloc.start()
        try:
            return reading.read_range(file, 1, 20)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            position = os.lseek(file, 0, os.SEEK_CUR)

    case = f"16 MB in {kind}, lines 1 to 20"
    with noted(case):
        actual = in_a_file(content, use)
    fail_if_different("the result is wrong", formula(content[:160] if kind != "one line" else content, 1, 20)[:90],
                      actual[:90], case)  # fmt: skip
    if peak > 500_000:
        fail(Kind.VALUES, f"it needs {peak / 1e6:.1f} MB of memory", case)
    if kind == "many lines" and position > 65_536:
        fail(Kind.VALUES, f"it reads {position:,} bytes at once, expected at most 65,536 for 21 short lines", case)


def test_task_2_read_sweep():
    for n in sizes(N=130, W=4200):
        content = b"\n".join(bytes([65 + (i + j) % 26 for j in range(n.W)]) for i in range(n.N)) + n.turn(b"\n", b"")
        first = 1 + n.seed % n.N
        check_read(content, f"{n.N} lines of {n.W} bytes", first, n.turn(None, first, first + 3), n.turn(16_000, 100))


@property_test
@given(
    content=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xc3\xa9", b"\xff", b"x" * 997])).map(b"".join),
    first=st.integers(1, 6),
    most=st.sampled_from([1, 30, 1100, 16_000]),
)
def test_task_2_read_any_bytes(content, first, most):
    check_read(content, f"content {content[:30]!r}", first, max_chars=most)
