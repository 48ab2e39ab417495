"""`pdm run quiz`: asked on a terminal and from a pipe, each round in another order; nothing unsolved is spoiled."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tests.course.checkouts import fixture
from tests.course.terminal import CTRL_C, CTRL_D, Terminal

from tiny_llm_course.commands.quiz import quiz
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.quizzes import load_quiz
from tiny_llm_course.dev.transcripts import environment, run
from tiny_llm_course.learner import progress, quizzes

pytestmark = pytest.mark.maintainers

PROMPT = "Enter skips, q ends: "
CHANGE = "    - return mean(centered * centered, axis)\n"


@pytest.fixture(scope="module")
def checkout():
    """Nothing is written, and nothing remembered."""
    with fixture() as folder:
        yield folder


@pytest.fixture(autouse=True)
def _fresh(checkout):
    (checkout / progress.FILE.relative_to(progress.ROOT)).unlink(missing_ok=True)


def asked(checkout, *answers, typed="quiz 1.1"):
    done = run(typed, checkout, answers)
    assert done.returncode == 0, done.stdout
    return done.stdout


def wrong(checkout, question, answer, options=""):
    """The screen on which this answer was given to a question, and none to the other one."""
    typed = f"quiz 1.1 {options}"
    seen = asked(checkout, "", "q", typed=typed)  # which is no round, so that the order stays
    chosen = re.search(rf"^  (\w)  {re.escape(answer)}$", seen[seen.index(question) :], re.MULTILINE)[1]
    first = seen.index(question) < seen.index("Question 2 of 2")
    return asked(checkout, *([chosen, ""] if first else ["", chosen]), typed=typed)


VARIANCE = "What is the variance of 1 and 5?"


def test_a_wrong_answer_is_explained_and_no_program_shown(checkout):
    screen = wrong(checkout, VARIANCE, "2")
    assert "✗ No.\n  You get this when the distances from the mean are not squared." in screen
    assert "  Its program is shown once 1.1.2 has passed, or with --spoil.\n  Right: 4\n" in screen
    assert "centered" not in screen
    assert "\n0 of 2 right. " in screen


@pytest.mark.parametrize(("before", "options"), [("status", "--spoil"), ("borrow 1.1.2", ""), ("test 1.1.2", "")])
def test_its_program_is_shown_to_whoever_asks_or_has_borrowed_or_passed(before, options):
    with fixture("1.1.1", "1.1.2") as folder:
        asked(folder, typed=before)
        screen = wrong(folder, VARIANCE, "2", options)
    assert f"With this edit of ours, the question's numbers give your answer:\n{CHANGE}    + " in screen


def test_a_round_is_remembered_and_the_next_has_another_order(checkout):
    assert "Last round" not in asked(checkout, "", "")
    orders = {tuple(re.findall(r"^  \w  .*$|^What .*$", asked(checkout, "", ""), re.MULTILINE)) for _ in range(6)}
    assert len(orders) > 1
    again = asked(checkout, "1", "1")
    right = again.count("✓ Right.")
    assert re.search(rf"^Last round, \d{{4}}-\d\d-\d\d: {right} of 2 right\.$", asked(checkout, "q"), re.MULTILINE)
    assert f"      Quiz: {right} of 2 right\n" in run("status 1.1", checkout).stdout


def test_a_round_that_is_ended_is_not_remembered_and_keeps_its_order(checkout):
    screens = [asked(checkout, *answers) for answers in [["q"], [], ["Q"]]]
    assert len({screen.split("Enter skips")[0] for screen in screens}) == 1
    assert all(screen.endswith("nothing was recorded. To retry: pdm run quiz 1.1\n") for screen in screens)
    assert "      Quiz: pdm run quiz 1.1\n" in run("status 1.1", checkout).stdout
    assert not (checkout / ".tiny-llm/progress.json").exists()


def test_what_is_no_answer_is_asked_again(checkout):
    screen = asked(checkout, "x", "9", "0", "²", "abc", "A", "2")
    assert screen.count("is not an answer here.") == 5
    assert len(re.findall("✓ Right|✗ No", screen)) == 2


@pytest.mark.parametrize("damage", ['{"quizzes": 3}', '{"quizzes": {"1.1": {"right": "x"}}}', "["])
def test_a_damaged_memory_costs_only_the_memory(checkout, damage):
    file = checkout / ".tiny-llm/progress.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(damage)
    assert "Last round" not in asked(checkout, "", "")
    assert json.loads(file.read_text())["quizzes"]["1.1"]["number"] == 1


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("quiz 1", "quiz takes one day:\n    pdm run quiz 1.1\n"),
        ("quiz 1.9", "There is no day 9 in week 1; there are days 1 and 2.\n"),
        ("quiz --day 1", "--day 1 needs a week:\n    pdm run quiz --week 1 --day 1\n"),
    ],
)
def test_wrong_use_is_one_line(checkout, typed, line):
    done = run(typed, checkout)
    assert (done.returncode, done.stdout) == (2, line)


def test_a_day_without_a_quiz():
    with fixture() as folder:
        (folder / "book/quizzes/week1/day1.py").unlink()
        done = run("quiz", folder)
        assert (done.returncode, done.stdout) == (2, "Day 1.1 has no quiz; days with a quiz: 1.2.\n")
        assert "Quiz" not in run("status 1.1", folder).stdout


def test_a_message_that_is_gone_is_one_line():
    with fixture() as folder:
        file = folder / "book/quizzes/week1/day1.py"
        question = 'quiz.message("1.1.1", "gone", "What is it?", why="", mistakes={})'
        file.write_text(f"{file.read_text(encoding='utf-8')}\n{question}\n", encoding="utf-8")
        done = run("quiz", folder)
    said = "book/quizzes/week1/day1.py: there is no transcript gone (pdm run dev transcripts gone)\n"
    assert (done.returncode, done.stdout) == (2, said)


def test_on_a_terminal(checkout):
    with Terminal("quiz", "1.1", checkout=checkout, columns=40) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("a\n")
        assert re.search("✓ Right|✗ No", terminal.wait_for(PROMPT))
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert "\nStopped before the last question" in terminal.screen
    assert max(map(len, terminal.screen.splitlines())) <= 40


def test_ctrl_c_is_clean(checkout):
    with Terminal("quiz", "1.1", checkout=checkout) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert terminal.screen.endswith("\ninterrupted\n")
    assert "Traceback" not in terminal.screen


@pytest.mark.parametrize("day", [d for d in load_course().days() if not d.is_open], ids=lambda day: day.name)
def test_every_question_of_the_course_can_be_asked_and_answered_wrongly(day, tmp_path, monkeypatch):
    """With the programs behind: none is without words."""
    monkeypatch.setattr(progress, "FILE", tmp_path / "progress.json")
    count = len(load_quiz(day).questions)
    for number in "123":
        done = CliRunner().invoke(quiz, [day.name, "--spoil"], input=f"{number}\n" * count, standalone_mode=False)
        assert done.exception is None, done.output
        assert len(re.findall("✓ Right|✗ No", done.output)) == count
        assert not re.search(r"^(?! {4}).*(\*\*\w|`)", done.output, re.MULTILINE), "Markdown that was not rendered"
    taken = quizzes.last_round(day)
    assert taken
    assert (taken.questions, taken.number) == (count, 3)


def test_nothing_slow_is_imported(checkout):
    """Neither PyTorch nor what grades: the first question is there after a second."""
    asking = (
        "import sys\nfrom tiny_llm_course.commands.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", asking, "quiz", "1.1"],
        cwd=checkout, env=environment(checkout), input="q\n", capture_output=True, encoding="utf-8",
    )  # fmt: skip
    modules = done.stdout.split()
    assert "mlx.core" in modules
    assert not {"torch", "pytest", "transformers", "hypothesis", "scipy"} & {*modules}
