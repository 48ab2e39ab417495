"""The repairs of a learner's program that find the line of a mistake, and the sentence that a learner sees."""

import ast
import re
import textwrap

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.source.alternatives import KINDS
from tiny_llm_course.source.repairs import Repair, repairs, said

OURS = "if a < 3:\n    raise ValueError\nhidden = abs(a) - 3\nreturn [b % 5, hidden.strip(b)]"
# A function's body with a mistake, the kind of the repair, its line, and what the body then is.
CASES = [
    ("return a < b", "another comparison", 2, "return a <= b"),
    ("return a == b", "another comparison", 2, "return a != b"),
    ("if a:\n    b = 1\nreturn b", "a test for None", 2, "if a is not None:\n    b = 1\nreturn b"),
    ("return 0 if not a else a", "a test for None", 2, "return 0 if a is None else a"),
    ("return a or b", "a test for None", 2, "return a if a is not None else b"),
    ("return a and b", "another condition", 2, "return a or b"),
    ("return a and b", "another condition", 2, "return b"),
    ("if a:\n    b = 1\nreturn b", "another condition", 2, "if not a:\n    b = 1\nreturn b"),
    ("return x[:a]", "a number one higher or lower", 2, "return x[:a + 1]"),
    ("return max(0, a - b)", "a number one higher or lower", 2, "return max(0, a - b + 1)"),
    ("return a + 7", "another variable", 2, "return a + b"),
    ("return range(a)", "a number one higher or lower", 2, "return range(a - 1)"),
    ("a = 2\nreturn x[a:b - 1]", "another operator", 3, "a = 2\nreturn x[a:b]"),
    ("return x.sum(axis=0)", "another constant", 2, "return x.sum(axis=-1)"),
    ("return a - b", "another order of the operands", 2, "return b - a"),
    ("return a / b", "another operator", 2, "return a // b"),
    ("a += b\nreturn a", "another operator", 2, "a = b\nreturn a"),
    ("a = b\nreturn a", "another operator", 2, "a = a + b\nreturn a"),
    ("return f(a, b)", "another order of the arguments", 2, "return f(b, a)"),
    ("return min(a, b)", "another function", 2, "return max(a, b)"),
    ("return x.popleft()", "another function", 2, "return x.pop()"),
    ("return a", "another dtype", 2, "return a.astype(x.dtype)"),
    ("a = x\nreturn a", "a copy", 2, "a = list(x)\nreturn a"),
    ("return f(a, b=1)", "fewer arguments", 2, "return f(a)"),
    ("return x.sum()", "another axis", 2, "return x.sum(axis=-1)"),
    ("return list(x)", "a call less", 2, "return x"),
    ("a = 1\nx.clear()\nreturn a", "a statement less", 3, "a = 1\npass\nreturn a"),
    ("a = 1\nb = a\nreturn b", "another order of the statements", 2, "b = a\na = 1\nreturn b"),
    ("for a in x:\n    b += a\n    return b", "another indentation", 2, "for a in x:\n    b += a\nreturn b"),
    ("for a in x:\n    b = 0\nb += a", "another indentation", 2, "for a in x:\n    b = 0\n    b += a"),
    ("while a < b:\n    a += 1\nreturn a", "another comparison", 2, "while a <= b:\n    a += 1\nreturn a"),
    ("return x[a]", "another variable", 2, "return x[b]"),
    ("return x[a.c] + a.d", "another variable", 2, "return x[a.d] + a.d"),
    ("return a", "one factor more", 2, "return a * b"),
    ("return a", "one term more", 2, "return a - b"),
    ("return a is b", "another comparison", 2, "return a == b"),
    ("return a['c'] + b['d']", "another constant", 2, "return a['d'] + b['d']"),
    ("if a < b:\n    a += 1", "a loop in place of a condition, or the reverse", 2, "while a < b:\n    a += 1"),
    ("while a < b:\n    a += 1", "a loop in place of a condition, or the reverse", 2, "if a < b:\n    a += 1"),
    ("for a in x:\n    break", "`break` in place of `continue`, or the reverse", 3, "for a in x:\n    continue"),
    ("for a in x:\n    b()", "another order of the elements", 2, "for a in reversed(list(x)):\n    b()"),
    ("return b % 7", "another expression", 2, "return b % 5"),
    ("return a + 7", "another constant", 2, "return a + 5"),
    ("return a", "a call more", 2, "return abs(a)"),
    ("return a", "a call more", 2, "return a.strip(b)"),
    ("return a.strip()", "other arguments", 2, "return a.strip(b)"),
    ("return a < b", "one term more", 2, "return a - x < b"),
    ("x = 1\nreturn x", "a statement more before it", 2, "if a < 3:\n    raise ValueError\nx = 1\nreturn x"),
    ("return a, b", "another order of the elements", 2, "return b, a"),
]


def function(body: str) -> str:
    return f"def f(a, b, x):\n{textwrap.indent(body, '    ')}"


@pytest.mark.parametrize(("body", "kind", "line", "then"), CASES, ids=range(len(CASES)))
def test_a_repair_changes_one_place_and_says_where(body, kind, line, then):
    wanted = ast.unparse(ast.parse(function(then)))
    found = [(each.kind, each.line, ast.unparse(each.program)) for each in repairs(function(body), "f", function(OURS))]
    assert (kind, line, wanted) in found


def test_each_kind_of_repair_is_tried():
    assert {kind for _, kind, _, _ in CASES} == set(KINDS)


def test_a_method_and_the_private_helpers_that_it_uses_are_repaired():
    text = "class A:\n  def f(self, a):\n    return _g(a)\n\ndef _g(a):\n  return a < 1\n\ndef h(a):\n  return a > 1\n"
    assert {each.line for each in repairs(text, "A.f", "")} == {3, 6}


@pytest.mark.parametrize("call", ["shutil.rmtree(a)", "a.unlink()", "open(a, 'w')", "os.remove(a)"])
def test_what_reaches_for_files_is_not_repaired(call):
    assert not list(repairs(function(f"if a < b:\n    {call}"), "f", ""))


@pytest.mark.parametrize("text", ["", "def f(:", "def g(): ...", "f = 1"])
def test_without_the_function_there_is_nothing_to_repair(text):
    assert not list(repairs(text, "f", ""))


def test_the_kind_is_said_and_one_line_or_two():
    one, other = (Repair(KINDS[0], line, "a < b", ast.Module([], [])) for line in (7, 9))
    assert said([one, one]) == "One small change in line 7 makes all checks pass (another comparison): `a < b`"
    assert said([other, one]) == "One small change makes all checks pass, in line 7 or in line 9 (another comparison)."


@pytest.mark.maintainers
def test_the_line_of_a_mistake_that_nothing_else_names_is_said():
    edits = [Edit("basics.py", "y = x * slope * slope.shape[0]", "y = x * slope  # N.. x I")]
    with fixture("1.1.3", edits=edits) as checkout:
        screen = run("test 1.1.3", checkout).stdout
    where = "makes all checks pass (another operator): `y = x * slope * slope.shape[0]`"
    assert re.search(rf"One small change in line \d+ {re.escape(where)}\n    What does it do in the case shown", screen)
