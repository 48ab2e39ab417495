"""`dev check` fails on a course that does not prove itself: each fault that is planted in a copy must be reported."""

import json

import pytest
from tests.course.checkouts import fixture, replace

from tiny_llm_course.dev.transcripts import run

pytestmark = pytest.mark.maintainers
FAULTY_TESTS = """

def test_task_2_line_always_passes():
    pass


def test_task_1_variance_always_fails():
    raise AssertionError


def test_of_no_task():
    pass
"""
FAULTY_VARIANTS = """

import itertools
import mlx.core as mx
from tiny_llm_solution import basics

solved = [basics.line]  # by another name than the one under which a second mistake is looked for
known.wrong("harmless", fact="nothing is wrong", question="Is it?")(solved[0])
known.wrong("no-offset-again", fact="the offset is left out", question="Is it?")(lambda x, m, b=None: solved[0](x, m))
known.wrong("counts", fact="it counts", question="Does it?")(lambda *a, at=itertools.count(1): solved[0](*a) + next(at))
known.accepted("one-more")(lambda *a: solved[0](*a) + 1)
known.accepted("no-offset-accepted")(lambda x, m, b=None: solved[0](x, m))
known.change("no-place", ("x @ v", "x"), fact="nothing is wrong", question="Is it?")
known.probe()(lambda program: {}["nothing"])
known.sized("x 2 x 3, slope 2")(lambda program: lambda: program(mx.ones((2, 3)), mx.ones(2)))
"""
UNTIMED = """

known.size = None
"""


@pytest.fixture(scope="module")
def report():
    with fixture() as checkout:
        week = checkout / "tests" / "week1"
        faults = {"test_day1.py": FAULTY_TESTS, "variants_1_1_3.py": FAULTY_VARIANTS, "variants_1_1_2.py": UNTIMED}
        for file, fault in faults.items():
            (week / file).write_text((week / file).read_text(encoding="utf-8") + fault, encoding="utf-8")
        replace(checkout / "src/tiny_llm/basics.py", "axis: int", "axis: float")
        replace(checkout / "src/tiny_llm_course/course/tasks/week1.toml", "difficulty = 2", "difficulty = 9")
        replace(checkout / "book/src/generated/1.1.md", "without calling `mx.mean`", "without calling `mx.max`")
        replace(checkout / "book/transcripts/not-squared.txt", "passed", "failed")
        done = run("dev check --json", checkout)
        assert done.returncode == 1, done.stdout
        yield json.loads(done.stdout)


@pytest.mark.parametrize(
    "problem",
    [
        "src/tiny_llm/basics.py differs from the generated stub at line 6 (pdm run dev stubs)",
        "1.1.1: mean differs in signature or docstring",
        "book/src/generated/1.1.md:signature-1 is out of date (pdm run dev book)",
        "the transcript not-squared is out of date",
        "1.1: test_of_no_task grades no task (tests/week1/test_day1.py)",
        "1.1.2: minutes must be at least 1, and the difficulty 1 to 5",
        "1.1.3: test_task_2_line_always_passes passes on the stub",
        "1.1.2: test_task_1_variance_always_fails fails on the solution",
        "1.1.3: the wrong program harmless passes all tests",
        "1.1.3: the wrong program harmless is named nothing",
        "1.1.3: the wrong program no-offset is named no-offset and no-offset-again",
        "1.1.3: the wrong program counts does something else each time",
        "1.1.3: the accepted program no-offset-accepted is named as a mistake",
        "1.1.3: the accepted program one-more is wrong on a probe",
        "1.1.3: a probe ends in a KeyError of the solution: a key",
        "1.1.3: the solution raises ValueError on x 2 x 3, slope 2: ",
        "1.1.2: compare has nothing to time: call known.sized or known.not_timed",
        "1.1.3: the change no-place: 'x @ v' occurs 0 times in basics:line, not once",
    ],
)
def test_a_planted_fault_is_reported(report, problem):
    assert any(problem in line for line in report["problems"]), report["problems"]


def test_the_accepted_program_that_fails_is_reported(report):
    failing = [line for line in report["problems"] if "fails on the accepted program no-offset-accepted" in line]
    assert len(failing) > 1


def test_the_figures_of_the_diagnosis(report):
    """One of the planted wrong programs is right, one cannot be made, and two are one; no claim is false."""
    naming = report["naming"]
    assert naming["named"] == naming["correct"] == naming["wrong"] - 2
    assert naming["unique"] == naming["named"] - 2
    assert report["culprits"]["planted"] > report["culprits"]["caught"] == report["culprits"]["traced"] > 10
    assert report["culprits"]["wrong_claims"] == 0
    assert report["two_mistakes"]["programs"] > 40
    assert report["two_mistakes"]["false_claims"] == 0


def test_the_table_counts(report):
    table = {row["task"]: row for row in report["tasks"]}
    assert table["1.1.1"]["problems"] == []
    assert table["1.1.1"]["checks"] == table["1.1.1"]["fail_on_stub"] == table["1.1.1"]["pass_on_solution"] == 5
    line = table["1.1.3"]
    assert line["fail_on_stub"] == line["checks"] - 1
    assert line["pass_on_solution"] == line["checks"]
    assert (line["caught"], line["named"]) == (line["wrong"] - 2, line["wrong"] - 4)
