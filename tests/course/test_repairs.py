"""The repairs of a learner's program that find the line of a mistake, and the sentence that a learner sees."""

import ast
import contextlib
import re
import textwrap
from types import SimpleNamespace

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.course.findings import Finding, Kind
from tiny_llm_course.dev.transcripts import Edit, run
from tiny_llm_course.grading import small_changes
from tiny_llm_course.grading.failures import Failure
from tiny_llm_course.grading.small_changes import OF_VALUES, SmallChanges
from tiny_llm_course.source.repairs import KINDS, Method, Repair, repairs, said, with_our_methods
from tiny_llm_course.testkit.changed_programs import Overtime

OURS = "if a < 3:\n    raise ValueError\nhidden = abs(a) - 3\nreturn [b % 5, hidden.strip(b)]"
# A function's body with a mistake, the kind of the repair, its line, and what the body then is.
CASES = [
    ("return a < b", "a different comparison", 2, "return a <= b"),
    ("return a == b", "a different comparison", 2, "return a != b"),
    ("if a:\n    b = 1\nreturn b", "a test for None", 2, "if a is not None:\n    b = 1\nreturn b"),
    ("return 0 if not a else a", "a test for None", 2, "return 0 if a is None else a"),
    ("return a or b", "a test for None", 2, "return a if a is not None else b"),
    ("return a and b", "a different condition", 2, "return a or b"),
    ("return a and b", "a different condition", 2, "return b"),
    ("if a:\n    b = 1\nreturn b", "a different condition", 2, "if not a:\n    b = 1\nreturn b"),
    ("return x[:a]", "off by one", 2, "return x[:a + 1]"),
    ("return max(0, a - b)", "off by one", 2, "return max(0, a - b + 1)"),
    ("return a + 7", "a different variable", 2, "return a + b"),
    ("return range(a)", "off by one", 2, "return range(a - 1)"),
    ("a = 2\nreturn x[a:b - 1]", "an operator removed", 3, "a = 2\nreturn x[a:b]"),
    ("return x.sum(axis=0)", "a different axis", 2, "return x.sum(axis=-1)"),
    ("return x.swapaxes(0, 1)", "a different axis", 2, "return x.swapaxes(0, 2)"),
    ("return x.transpose(0, 2, 1)", "a different axis", 2, "return x.transpose(2, 0, 1)"),
    ("return a + 1", "a different constant", 2, "return a + 2"),
    ("return x[:a]", "a different slice", 2, "return x[a:]"),
    ("return x[::-1]", "a different slice", 2, "return x[:]"),
    ("return x[a]", "an index removed", 2, "return x"),
    ("return a - b", "swapped operands", 2, "return b - a"),
    ("return a / b", "a different operator", 2, "return a // b"),
    ("a += b\nreturn a", "an operator removed", 2, "a = b\nreturn a"),
    ("a += b\nreturn a", "an update in place", 2, "a = a + b\nreturn a"),
    ("a = b\nreturn a", "an operator added", 2, "a = a + b\nreturn a"),
    ("return f(a, b)", "swapped arguments", 2, "return f(b, a)"),
    ("return min(a, b)", "a different function", 2, "return max(a, b)"),
    ("return x.popleft()", "a different function", 2, "return x.pop()"),
    ("return a", "a different dtype", 2, "return a.astype(x.dtype)"),
    ("a = x\nreturn a", "a copy", 2, "a = list(x)\nreturn a"),
    ("return f(a, b=1)", "an argument removed", 2, "return f(a)"),
    ("return x.sum()", "a different axis", 2, "return x.sum(axis=-1)"),
    ("return list(x)", "a call removed", 2, "return x"),
    ("a = 1\nif b:\n    a = 2\nreturn a", "a branch removed", 3, "a = 1\npass\nreturn a"),
    ("a = 1\nx.clear()\nreturn a", "a statement removed", 3, "a = 1\npass\nreturn a"),
    ("a = 1\nb = a\nreturn b", "a different order of statements", 2, "b = a\na = 1\nreturn b"),
    ("for a in x:\n    b += a\n    return b", "different indentation", 2, "for a in x:\n    b += a\nreturn b"),
    ("for a in x:\n    b = 0\nb += a", "different indentation", 2, "for a in x:\n    b = 0\n    b += a"),
    ("while a < b:\n    a += 1\nreturn a", "a different comparison", 2, "while a <= b:\n    a += 1\nreturn a"),
    ("return x[a]", "a different variable", 2, "return x[b]"),
    ("return x[a.c] + a.d", "a different variable", 2, "return x[a.d] + a.d"),
    ("return a", "a factor added", 2, "return a * b"),
    ("return a", "a term added", 2, "return a - b"),
    ("return a is b", "a different comparison", 2, "return a == b"),
    ("return a['c'] + b['d']", "a different constant", 2, "return a['d'] + b['d']"),
    ("if a < b:\n    a += 1", "`while` in place of `if`, or the reverse", 2, "while a < b:\n    a += 1"),
    ("while a < b:\n    a += 1", "`while` in place of `if`, or the reverse", 2, "if a < b:\n    a += 1"),
    ("for a in x:\n    break", "`break` in place of `continue`, or the reverse", 3, "for a in x:\n    continue"),
    ("for a in x:\n    b()", "a different order of elements", 2, "for a in reversed(list(x)):\n    b()"),
    ("return b % 7", "a different expression", 2, "return b % 5"),
    ("return a + 7", "a different constant", 2, "return a + 5"),
    ("return a", "a call added", 2, "return abs(a)"),
    ("return a", "a call added", 2, "return a.strip(b)"),
    ("return a.strip()", "different arguments", 2, "return a.strip(b)"),
    ("return a < b", "a term added", 2, "return a - x < b"),
    ("x = 1\nreturn x", "a statement added before it", 2, "if a < 3:\n    raise ValueError\nx = 1\nreturn x"),
    ("return a, b", "a different order of elements", 2, "return b, a"),
]


def function(body: str) -> str:
    return f"def f(a, b, x):\n{textwrap.indent(body, '    ')}"


@pytest.mark.parametrize(("body", "kind", "line", "then"), CASES, ids=range(len(CASES)))
def test_a_repair_changes_one_place_and_says_where(body, kind, line, then):
    wanted = ast.unparse(ast.parse(function(then)))
    found = []
    for each in repairs(function(body), "f", function(OURS)):
        compile(each.program, "f.py", "exec")
        found.append((each.kind, each.line, ast.unparse(each.program)))
    assert (kind, line, wanted) in found


def test_each_kind_of_repair_is_tried():
    assert {kind for _, kind, _, _ in CASES} == set(KINDS)


def test_a_method_and_the_private_helpers_that_it_uses_are_repaired():
    text = "class A:\n  def f(self, a):\n    return _g(a)\n\ndef _g(a):\n  return a < 1\n\ndef h(a):\n  return a > 1\n"
    assert {each.line for each in repairs(text, "A.f", "")} == {3, 6}


def test_a_docstring_is_not_repaired():
    assert 2 not in {each.line for each in repairs(function('"""Return b."""\nreturn a'), "f", function(OURS))}


@pytest.mark.parametrize("call", ["shutil.rmtree(a)", "a.unlink()", "open(a, 'w')", "os.remove(a)"])
def test_what_reaches_for_files_is_not_repaired(call):
    assert not list(repairs(function(f"if a < b:\n    {call}"), "f", ""))


@pytest.mark.parametrize("text", ["", "def f(:", "def g(): ...", "f = 1"])
def test_without_the_function_there_is_nothing_to_repair(text):
    assert not list(repairs(text, "f", ""))


FIRST, SECOND = KINDS[1:3]


def repair(kind: str, line: int) -> Repair:
    return Repair(kind, line, "a < b", ast.Module([], []))


def test_the_kind_is_said_and_one_line_or_two():
    all_pass = "the comparison seems wrong: with one small change there, all checks pass."
    assert said([repair(FIRST, 7)] * 2) == f"In line 7, {all_pass} `a < b`"
    assert said([repair(FIRST, 9), repair(FIRST, 7)]) == f"In line 7 or in line 9, {all_pass}"


OFF = "off by one"
# The repairs that make all checks pass, the kind of the failure, and those that are said.
FOUND = [
    ([], Kind.VALUES, None),
    ([repair(FIRST, 7)], Kind.VALUES, [repair(FIRST, 7)]),
    ([repair(FIRST, 7), repair(FIRST, 7), repair(FIRST, 8)], Kind.VALUES, [repair(FIRST, 7), repair(FIRST, 8)]),
    ([repair(FIRST, 7), repair(FIRST, 8), repair(FIRST, 9)], Kind.VALUES, None),
    ([repair(FIRST, 7), repair(SECOND, 8)], Kind.VALUES, [repair(FIRST, 7)]),
    ([repair(OFF, 7)], Kind.VALUES, [repair(OFF, 7)]),
    ([repair(OFF, 7)], Kind.NO_ERROR, None),
    ([repair(OFF, 7), repair(FIRST, 8)], Kind.NO_ERROR, [repair(FIRST, 8)]),
    ([repair(FIRST, 7), repair("a copy", 8)], Kind.INPUT_CHANGED, [repair("a copy", 8)]),
]


@pytest.mark.parametrize(("right", "kind", "shown"), FOUND, ids=range(len(FOUND)))
def test_the_first_kind_is_said_in_two_lines_at_most(right, kind, shown, monkeypatch):
    """Of a program with one failing check, each repair that is tried makes it pass."""
    monkeypatch.setattr(small_changes, "repairs_of", lambda task, within: ((each, object()) for each in right))
    monkeypatch.setattr(small_changes, "installed_for", lambda *of: contextlib.nullcontext())
    monkeypatch.setattr(small_changes.SmallChanges, "_may_pass", lambda *of: True)
    item = SimpleNamespace(name="check")
    search = SmallChanges(object(), [item], {"check": Failure(Finding(kind, ""))}, lambda item: None)
    claim = search.line()
    assert (claim and claim.place) == (said(shown) if shown else None)


CLASS = """
class A:
    def __init__(self, n):
        self.n = n + 1

    def f(self, a):
        return self.n < a

    def own(self): ...
"""
SOLVED = CLASS.replace("own", "_own").replace("n + 1", "n").replace("self.n <", "(self.n + 1) <=")


def test_each_method_of_a_class_that_ours_has_too_is_replaced_alone():
    found = [(each.name, each.lines, ast.unparse(each.program)) for each in with_our_methods(CLASS, "A", SOLVED)]
    text = ast.unparse(ast.parse(CLASS))
    first = ("__init__", range(3, 5), text.replace("n + 1", "n"))
    assert found == [first, ("f", range(6, 8), text.replace("self.n < a", "self.n + 1 <= a"))]
    assert not list(with_our_methods("class A:\n  def f(self): ...", "A", SOLVED))  # it says nothing
    assert not list(with_our_methods("def f(self): ...", "f", "def f(self): pass"))


def test_repairs_are_in_some_lines_or_in_a_helper():
    text = f"{CLASS}\ndef _helper(a):\n    return a < 1\n".replace("self.n < a", "_helper(a < 2)")
    assert {each.line for each in repairs(text, "A", SOLVED, range(6, 8))} == {7, 12}


METHODS = [Method(name, range(7, 8), ast.Module([], [])) for name in "fg"]


@pytest.mark.parametrize(
    ("methods", "said"), [(METHODS[:1], "All checks pass with our `f` in place of yours."), (METHODS, "")]
)
def test_the_only_method_that_makes_all_checks_pass_is_said(methods, said, monkeypatch):
    asked = []
    monkeypatch.setattr(small_changes, "repairs_of", lambda task, within: asked.append(within) or iter(()))
    monkeypatch.setattr(small_changes, "with_our_methods_of", lambda task: ((each, object()) for each in methods))
    monkeypatch.setattr(small_changes, "installed_for", lambda *of: contextlib.nullcontext())
    monkeypatch.setattr(small_changes.SmallChanges, "_may_pass", lambda *of: True)
    item = SimpleNamespace(name="check")
    failures = {"check": Failure(Finding(Kind.VALUES, ""))}
    search = SmallChanges(object(), [item], failures, lambda item: None)
    claim = search.method()
    assert not search.line()
    assert ((claim and claim.place) or "", asked) == (said, [range(7, 8) if said else None])


def test_kinds_of_numbers_are_kinds():
    assert set(KINDS) >= OF_VALUES


@pytest.mark.parametrize("error", [AssertionError, SystemExit, pytest.skip.Exception, Overtime])
def test_a_changed_program_may_fail_in_any_way(error, monkeypatch):
    def check(a):
        if a:
            raise error

    monkeypatch.setattr(small_changes, "installed_for", lambda *of: contextlib.nullcontext())
    for a in (0, 1):
        search = object.__new__(SmallChanges)
        item = object.__new__(pytest.Function)
        vars(item).update(_obj=check, callspec=SimpleNamespace(params={"a": a}), fixturenames=["a"])
        vars(search).update(order=[item], most=1.0, task=object())
        assert search._may_pass(object()) == (not a)


@pytest.mark.maintainers
def test_the_line_of_a_mistake_that_nothing_else_names_is_said():
    edits = [Edit("basics.py", "y = x * slope * slope.shape[0]", "y = x * slope  # N.. x I")]
    with fixture("1.1.3", edits=edits) as checkout:
        screen = run("test 1.1.3", checkout).stdout
    said = "one operation seems too many: with one small change there, all checks pass."
    where = f"{said} `y = x * slope * slope.shape[0]`"
    assert re.search(rf"In line \d+, {re.escape(where)}\n    What does it do in the case shown", screen)
