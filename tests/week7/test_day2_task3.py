"""Task 7.2.3, JSON that is still being written, checked against the longest beginning that Python's json accepts."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.prefixes import ODD, WHOLE, completed

from tiny_llm.tools import partial
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import again, awkward_texts, same_text


def check(prefix, expected=None):
    case = f"prefix {prefix!a}" if len(prefix) < 90 else f"prefix of {len(prefix)} characters, ... {prefix[-60:]!a}"
    found = again(lambda: partial.complete_json(prefix), case)
    same_text(found, completed(prefix) if expected is None else expected, case, len(prefix))


def test_task_3_partial_a_call():
    """The arguments of a call, as they arrive."""
    for prefix, expected in (
        ("", ""),
        ("{", "{}"),
        ('{"pa', "{}"),
        ('{"path"', "{}"),
        ('{"path": ', "{}"),
        ('{"path": "', '{"path": ""}'),
        ('{"path": "src/ma', '{"path": "src/ma"}'),
        ('{"path": "src/main.py"', '{"path": "src/main.py"}'),
        ('{"path": "src/main.py", "li', '{"path": "src/main.py"}'),
        ('{"path": "src/main.py", "lines": [1, 2', '{"path": "src/main.py", "lines": [1, 2]}'),
        ('{"path": "src/main.py", "lines": [1, 23', '{"path": "src/main.py", "lines": [1, 23]}'),
        ('{"path": "src/main.py", "lines": [1, 23], "all": tru', '{"path": "src/main.py", "lines": [1, 23]}'),
    ):
        check(prefix, expected)


@pytest.mark.parametrize("text", WHOLE, ids=ascii)
def test_task_3_partial_every_beginning(text):
    for size in range(len(text) + 1):
        check(text[:size])


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_task_3_partial_what_is_no_json(text):
    """And more text after it, which changes nothing."""
    check(text)
    check(text + ', "x": 1}]')


def test_task_3_partial_whole_texts_stay():
    for text in WHOLE:
        check(text, text)


def test_task_3_partial_sweep():
    """Every kind of text as a string that is still open, as a key and as JSON; deep nesting; long lists."""
    for text in awkward_texts()[::2]:
        written = json.dumps(text, ensure_ascii=len(text) % 2 == 0)
        check(f'{{"a": [{written[:-1]}', f'{{"a": [{written}]}}')
        check(f"{{{written}", "{}")
        if len(text) < 300:
            check(text)
    for depth in (1, 2, 20, 100, 500):
        check("[" * depth, "[" * depth + "]" * depth)
        check('{"a":' * depth, '{"a":' * (depth - 1) + "{" + "}" * depth)
    for count in (20, 65, 129, 1025, 4200):
        check("[" + "1, " * count, "[" + "1, " * (count - 1) + "1]")
        check('["' + "\\n" * count + "\\", '["' + "\\n" * count + '"]')


def test_task_3_partial_raises_nothing():
    """Very deep nesting, a very long number, and half a surrogate pair that is no escape."""
    for depth in (3_000, 100_000):
        check("[" * depth, "[" * depth + "]" * depth)
        check('{"a":' * depth + "1", '{"a":' * depth + "1" + "}" * depth)
        check("[" * depth + "]" * depth + ",", "[" * depth + "]" * depth)
    check("[" + "7" * 5_000, "[" + "7" * 5_000 + "]")
    for text in ('["a\ud83d', '["a\udc15b', '["a\ud83d"'):
        check(text, '["a"]')


PARTS = [
    *'{}[]",:\n 10-.eE+a\\',
    "\u00a0",
    "\u0663",
    r"\u",
    r"\ud83d",
    r"\udc15",
    r"\u00e9",
    r"\n",
    '"a":',
    "true",
    "nul",
]


def test_task_3_partial_short_texts_sweep():
    """Several thousand texts of JSON's characters, escapes and some that look alike."""
    generator = random.Random(723)
    for count in range(1, 8):
        for begin in ("", "[", '["', '{"', '{"a":', "[1", '"a"') * 100:
            text = begin + "".join(generator.choices(PARTS, k=count))
            if _is_wrong(text):
                check(_shrunk(text))


def _is_wrong(text):
    try:
        return partial.complete_json(text) != completed(text)
    except Exception:  # `check` reports it
        return True


def _shrunk(text):
    """Remove characters, one by one, as long as the completion is wrong."""
    for smaller in (text[:i] + text[i + 1 :] for i in range(len(text))):
        if _is_wrong(smaller):
            return _shrunk(smaller)
    return text


@property_test
@given(st.text('{}[]",:\\u 1e.-trued8\n', max_size=14))
def test_task_3_partial_any_text(text):
    check(text)


@property_test
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
        lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(st.text(max_size=2), x, max_size=3)),
        max_leaves=6,
    )
)
def test_task_3_partial_only_grows(value):
    """As more of a text arrives, nothing that was shown in a string or a list disappears."""
    text = json.dumps(value)
    shown = -1
    for size in range(len(text) + 1):
        case = f"the first {size} characters of {ascii(text)[:80]}"
        with noted(case):
            found = partial.complete_json(text[:size])
        try:
            leaves = _leaves(json.loads(found)) if found else 0
        except ValueError:
            fail(Kind.VALUES, "the completion is not JSON", case, f"got       {ascii(found)[:90]}")
        if leaves < shown:
            fail(Kind.VALUES, "something that was shown before is missing", case, f"got       {ascii(found)[:90]}")
        shown = leaves


def _leaves(value):
    if isinstance(value, dict):
        return 1 + sum(map(_leaves, value.values()))
    return 1 + sum(map(_leaves, value)) if isinstance(value, list) else 1
