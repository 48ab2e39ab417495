"""What supports a known mistake in a check that missed an error, and how exactly results are compared."""

import contextlib
from types import SimpleNamespace

import mlx.core as mx
import pytest

from tiny_llm_course.course.findings import Finding, Kind
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading import diagnosis
from tiny_llm_course.grading.diagnosis import Checks
from tiny_llm_course.grading.failures import Failure, fails_alike, stop_alike
from tiny_llm_course.testkit.naming import Candidates
from tiny_llm_course.testkit.outcomes import Stopped
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.variants import Variant


class Item:
    def __init__(self, name: str) -> None:
        self.name = name


def failure(kind: Kind, case: str, *lines: str) -> Failure:
    return Failure(Finding(kind, "a headline", lines, case=case))


EVIDENCE = [
    (Kind.NO_ERROR, (), True, True),
    (Kind.NO_ERROR, (), False, False),  # whatever a program does instead of raising, the check looks the same
    (Kind.VALUES, ("got       1",), False, True),
    (Kind.VALUES, ("2 of 3 differ",), True, False),  # it does not say which two
]


@pytest.mark.parametrize(("kind", "lines", "shows", "claimed"), EVIDENCE)
def test_a_case_supports_a_mistake_only_if_it_or_a_probe_shows_what_the_program_does(
    kind, lines, shows, claimed, monkeypatch
):
    monkeypatch.setattr(diagnosis, "installed", lambda *of: contextlib.nullcontext())
    monkeypatch.setattr(Checks, "changes", SimpleNamespace(slip=lambda: None))
    failures = {name: failure(kind, f"x {name}", *lines) for name in ("2", "3")}
    variant = Variant("mistake", lambda: None, fact="a fact", question="a question?")
    task = load_course().task("1.1.3")
    checks = Checks(task, [*map(Item, failures)], failures, lambda item: failures[item.name])
    found = checks.confirm(Candidates(likely=(variant,), showing=(variant,) if shows else ()), [], [variant])
    assert [claim.facts for claim in found.claims] == ([["a fact"]] if claimed else [])


@pytest.mark.parametrize(("kind", "equal"), [(Kind.NO_ERROR, True), (Kind.VALUES, False)])
def test_what_else_a_message_says_contradicts_no_mistake(kind, equal):
    mine, theirs = failure(kind, "x 2", "got       a"), failure(kind, "x 2", "got       b")
    assert (mine.equals(theirs), mine.contradicts(theirs)) == (equal, not equal)


def test_words_of_32_bits_are_compared_exactly():
    assert to_float64(mx.array([0x87654321], mx.uint32)).tolist() == [0x87654321]
    assert to_float64(mx.array([1.5], mx.bfloat16)).tolist() == [1.5]


RAISED = "raised ValueError: [reshape] Cannot reshape array of size 60 into shape (2,4,3,2)."
MESSAGES = [
    (
        RAISED,
        "ValueError after: [reshape] Cannot reshape array of size 60 into shape (2,4,6).",
        True,
    ),
    (RAISED, "raised ValueError: [reshape] Cannot reshape array of size 60 into shape (2,4,7).", False),
    ("raised ValueError: [matmul] 2 and 3", "raised ValueError: [matmul] 2 and 3", True),
    ("raised ValueError: [matmul] 2 and 3", "raised ValueError: [matmul] 2 and 4", False),
    ("raised ValueError: wrong", "raised ValueError: wrong", False),
]


@pytest.mark.parametrize(("mine", "theirs", "alike"), MESSAGES)
def test_one_error_about_arrays_of_one_size_is_evidence(mine, theirs, alike):
    assert Failure(Finding(Kind.RAISED, mine)).has_sizes_of(Failure(Finding(Kind.RAISED, theirs))) == alike


WORD, NUMBER = Stopped("ValueError", "word"), Stopped("ValueError", "number")
STOPS = [(WORD, WORD, True), (WORD, None, False), (NUMBER, None, True), (None, WORD, False), (None, None, True)]


@pytest.mark.parametrize(("mine", "theirs", "alike"), STOPS)
def test_another_exception_elsewhere_refutes_no_mistake(mine, theirs, alike):
    failures = [each and Failure(Finding(Kind.RAISED, ""), each) for each in (mine, theirs)]
    assert stop_alike(*failures, WORD) == alike


WORDS = Failure(Finding(Kind.NO_ERROR, "the ValueError's message does not mention 9"))
MISSED = Failure(Finding(Kind.NO_ERROR, "no error was raised, expected a ValueError"))


@pytest.mark.parametrize(
    ("mine", "theirs", "alike"),
    [(WORDS, None, True), (None, WORDS, True), (WORDS, MISSED, False), (MISSED, None, False)],
)
def test_what_a_message_lacks_refutes_no_mistake_and_supports_none_that_misses_the_error(mine, theirs, alike):
    assert fails_alike({"check": mine}, {"check": theirs}) == alike
