"""The quiz of week 7, day 6."""

from typing import Any

from tests.week7.transcripts import Scene, edit, entries, read, run_tests

from tiny_llm_course.dev.book.quizzes import Quiz
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.outcomes.grade import Grade  # noqa: E402
from tiny_llm_solution.outcomes.scores import Run  # noqa: E402

quiz = Quiz()


@quiz.question(
    "7.6.2",
    "A case was run four times and solved three times. What is its pass^2?",
    why="Of the six pairs of runs, three have two solved runs: C(3, 2) / C(4, 2).",
    mistakes={
        "pass-all-with-replacement": "(3/4)^2 allows the same run to be drawn twice.",
        "pass-all-of-pass-at": "Every pair has at least one solved run, but pass^2 asks for two.",
    },
)
def pairs(program: Any) -> str:
    scores = program([Run("a", solved, 1, 1) for solved in (True, True, False, True)])
    return f"{100 * scores.pass_all(2):.0f} %"


@quiz.question(
    "7.6.2",
    "Two runs are solved with 1 million tokens each, and two fail with 4 million each. A million tokens cost one "
    "dollar. What does a solved run cost?",
    why="All runs together cost 10 dollars, and two are solved.",
    mistakes={
        "cost-of-solved-runs": "The failed runs have to be paid for, too.",
        "cost-per-run": "That is the mean cost of a run, solved or not.",
    },
)
def dollars(program: Any) -> str:
    runs = [Run("a", True, 1, 10**6), Run("b", True, 1, 10**6), Run("c", False, 1, 4 * 10**6)]
    return f"{program([*runs, Run('d', False, 1, 4 * 10**6)]).usage(1.0).cost_per_solved:.2f} dollars"


@quiz.question(
    "7.6.3",
    "An agent runs the tests, which fail; adds a test to test_x.py; fixes x.py; runs the tests, which pass; and says "
    "that it is done. A new hidden test fails. What is the cause?",
    why="The last command passed and came after the last change, and the module was changed, so the fix is wrong.",
    mistakes={
        "any-command": "The tests failed before the fix, as they should. Only the last command counts.",
        "any-test-file": "The agent has changed the module as well.",
        "any-failed-test": "The hidden test is new: it failed before the run, too.",
    },
)
def cause(program: Any) -> str:
    calls = [read(), run_tests("FAILED\n[exit code 1]"), edit(path="test_x.py"), edit(), run_tests()]
    scene = Scene(calls, "wrong fix")
    return str(program(entries(scene.calls), Grade("failed", ("test_new",))))
