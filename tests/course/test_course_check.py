"""`dev check` fails on a course that does not prove itself: faults are planted in a copy, and each must be reported."""

import json
from pathlib import Path

import pytest

from tiny_llm_course.transcripts import Scenario, checkout_for, run

FAULTY_TESTS = """

def test_task_2_linear_always_passes():
    pass


def test_task_2_multi_head_always_fails():
    raise AssertionError


def test_of_no_task():
    pass
"""
FAULTY_VARIANTS = """

day.wrong("1.1.3", "harmless", fact="nothing is wrong", question="Is it?")(linear)
day.wrong("1.1.3", "no-bias-again", fact="the bias is left out", question="Is it?")(no_bias)
day.accepted("1.1.3", "no-bias-accepted")(no_bias)
"""


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture(scope="module")
def report():
    with checkout_for(Scenario("untouched", ())) as checkout:
        week = checkout / "tests" / "week1"
        for file, fault in {"test_day1.py": FAULTY_TESTS, "variants_day1.py": FAULTY_VARIANTS}.items():
            (week / file).write_text((week / file).read_text(encoding="utf-8") + fault, encoding="utf-8")
        replace(checkout / "src" / "tiny_llm" / "basics.py", "axis: int", "axis: float")
        replace(checkout / "src" / "tiny_llm_course" / "tasks.toml", "difficulty = 2", "difficulty = 9")
        replace(checkout / "book" / "src" / "generated" / "1.1.3-hints.md", "reshape", "transpose")
        replace(checkout / "tests" / "course" / "transcripts" / "solution.txt", "passed", "failed")
        # Day 1, where the faults are, and a day that uses it: the whole course is for `dev check` itself.
        done = run("dev check 1.1 1.3 --json", checkout)
        assert done.returncode == 1, done.stdout
        yield json.loads(done.stdout)


@pytest.mark.parametrize(
    "problem",
    [
        "src/tiny_llm/basics.py differs from the generated stub at line 6 (pdm run dev stubs)",
        "1.1.1: softmax has another signature or docstring",
        "book/src/generated/1.1.3-hints.md",
        "the transcript solution is not what is printed now",
        "week 1, day 1: test_of_no_task grades no task",
        "1.1.2: minutes must be at least 1, and the difficulty 1 to 5",
        "1.1.3: test_task_2_linear_always_passes passes on the stub",
        "1.1.4: test_task_2_multi_head_always_fails fails on the solution",
        "1.1.3: the wrong program harmless passes all tests",
        "1.1.3: the wrong program harmless is named nothing",
        "1.1.3: the wrong program no-bias is named no-bias and no-bias-again",
        "1.1.3: the accepted program no-bias-accepted is named as a mistake",
    ],
)
def test_a_planted_fault_is_reported(report, problem):
    assert any(problem in line for line in report["problems"]), report["problems"]


def test_the_accepted_program_that_fails_is_reported(report):
    failing = [line for line in report["problems"] if "fails on the accepted program no-bias-accepted" in line]
    assert len(failing) > 1


def test_the_figures_of_the_diagnosis(report):
    """Two of the planted wrong programs are named nothing or twice; no claim is false."""
    naming = report["naming"]
    assert naming["named"] == naming["correct"] == naming["wrong"] - 1
    assert naming["unique"] == naming["named"] - 2
    assert report["culprits"]["planted"] > report["culprits"]["caught"] == report["culprits"]["traced"] > 30
    assert report["culprits"]["wrong_claims"] == 0
    assert report["two_mistakes"]["programs"] > 150
    assert report["two_mistakes"]["false_claims"] == 0


def test_the_table_counts(report):
    table = {row["task"]: row for row in report["tasks"]}
    assert table["1.1.1"]["problems"] == []
    assert table["1.1.1"]["checks"] == table["1.1.1"]["fail_on_stub"] == table["1.1.1"]["pass_on_solution"] > 10
    linear = table["1.1.3"]
    assert linear["fail_on_stub"] == linear["checks"] - 1
    assert linear["pass_on_solution"] == linear["checks"]
    assert (linear["caught"], linear["named"]) == (linear["wrong"] - 1, linear["wrong"] - 3)
