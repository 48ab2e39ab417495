"""The slips that are derived from a solution: one node each, with a fact, and a message that a learner sees."""

import ast
import signal
import textwrap

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.paths import LEARNER, SOLUTION
from tiny_llm_course.source.slips import QUESTIONS, slips
from tiny_llm_course.testkit.changed_programs import Overtime, at_most

# A function's body, the fact of a slip in it, and what the body then is. `a`, `b` and `x` are the learner's names, too.
CASES = [
    ("if a < 1:\n    raise ValueError('small')", "no ValueError is raised when `a < 1`", "pass"),
    ("if inner < 1:\n    raise ValueError('too small')", 'the ValueError "too small" is not raised', "pass"),
    ("if a < 1 or b:\n    raise ValueError", "no ValueError is raised when `b`", "if a < 1:\n    raise ValueError"),
    ("return a < b", "the case `a == b` is decided the other way", "return a <= b"),
    ("return a >= b", "the case `a == b` is decided the other way", "return a > b"),
    ("return 0 if a is None else a", "`a` that is 0 or empty is taken for None", "return 0 if not a else a"),
    ("return 0 if a is None else a", "nothing special happens when `a is None`", "return a"),
    ("return 0 if a is None else a", "nothing special happens when `a is not None`", "return 0"),
    ("if a:\n    b = 1\nreturn b", "nothing special happens when `a`", "pass\nreturn b"),
    ("return 0 < a <= b", "the case `a == b` is decided the other way", "return 0 < a < b"),
    ("return 0 < a <= b", "the case `0 == a` is decided the other way", "return 0 <= a <= b"),
    ("return a and b", "`b` is not checked", "return a"),
    ("return a or 1", "an empty value is not replaced by `1`", "return a"),
    ("return max(a, 1)", "`a` may fall below `1`", "return a"),
    ("return min(inner, 1)", "a number may exceed its bound", "return inner"),
    ("return a.astype(x)", "a conversion to `x` is missing", "return a"),
    ("return sorted(a)", "`sorted` is not applied to `a`", "return a"),
    ("return sum(a, start=1)", "`start` is not passed to `sum`", "return sum(a)"),
    ("return a + 1", "`a` is off by one in one place", "return a"),
    ("return a[1:]", "the first element of `a` is not left out", "return a[:]"),
    ("return a[:-1]", "the last element of `a` is not left out", "return a[:]"),
    ("return a[:b]", "a slice of `a` ends one element too late", "return a[:b + 1]"),
    ("return a[b:]", "a slice of `a` begins one element too early", "return a[b - 1:]"),
    ("return range(a)", "a range ends one too early, at `a`", "return range(a - 1)"),
    ("return a - b", "`a` and `b` are exchanged", "return b - a"),
    ("return f(a, b)", "`a` and `b` are exchanged", "return f(b, a)"),
    ("return a and b", "one of several conditions is enough in place of `a and b`", "return a or b"),
    ("return a or b", "all of several conditions must hold in place of `a or b`", "return a and b"),
    ("return -(-a // b)", "`a / b` is rounded down", "return a // b"),
    ("x.append(a)", "`x.append` is not called", "pass"),
    ("x.append += 1", "`x.append` is not updated", "pass"),
    ("try:\n    a()\nexcept OSError:\n    b()", "`OSError` is not caught", "if True:\n    a()"),
]


@pytest.mark.parametrize(("body", "fact", "then"), CASES, ids=range(len(CASES)))
def test_a_slip_changes_one_node_and_says_which(body, fact, then):
    def function(lines: str) -> str:
        return ast.unparse(ast.parse(f"def f(a, b, x):\n{textwrap.indent(lines, '    ')}"))

    found = [slip for slip in slips(function(body), "def f(a, b, x):\n    x.append(a)") if slip.fact == fact]
    assert function(then) in [slip.program for slip in found]


def test_a_condition_of_a_refusal_is_named_as_a_refusal_alone():
    """Were its `or` told apart as well, two facts of one program would leave it without a name."""
    found = list(slips("def f(a, b):\n    if a < 1 or b:\n        raise ValueError", "def f(a, b): ..."))
    assert len({slip.program for slip in found}) == len(found)
    assert [slip.fact for slip in found if "`b`" in slip.fact] == ["no ValueError is raised when `b`"]


def test_what_might_never_end_has_no_slip():
    assert not list(slips("def f(a):\n    while a < 3:\n        a = max(a + 1, 2)", ""))


def test_a_check_of_a_slip_that_never_ends_is_stopped():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Overtime), at_most(0.05):
        all(iter(lambda: True, False))
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_every_slip_of_the_course_is_a_change_of_a_known_kind():
    course, found = load_course(), []
    for file in sorted({task.target.file for task in course.tasks() if task.target.is_python}):
        whole = (SOLUTION / file).read_text(encoding="utf-8")
        plain = ast.unparse(ast.parse(whole))
        for slip in slips(whole, (LEARNER / file).read_text(encoding="utf-8")):
            assert slip.kind in QUESTIONS
            assert slip.program != plain, slip.edit
            found.append(slip)
    assert {slip.kind for slip in found if slip.fact} == set(QUESTIONS)


@pytest.mark.maintainers
def test_a_slip_that_no_known_mistake_foresees_is_named():
    edits = [Edit("basics.py", "if False:", "if x.shape[-1] != slope.shape[0]:")]
    with fixture("1.1.3", edits=edits) as checkout:
        screen = run("test 1.1.3", checkout).stdout
    assert "no ValueError is raised when `x.shape[-1] != slope.shape[0]`" in screen
    assert "Which errors does the docstring promise" in screen


def test_a_condition_that_is_tested_twice_is_not_said_to_be_left_out():
    text = "def f(a):\n    if a:\n        b = 1\n    else:\n        b = 2\n    return b if a else -b\n"
    found = {slip.fact for slip in slips(text, text) if slip.kind == "case-left-out"}
    assert found == {""}
