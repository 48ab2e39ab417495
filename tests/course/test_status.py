"""The board: every state in a mark and in words, on a small screen, and one next step."""

import re
import shutil

import pytest
from tests.course.checkouts import fixture, replace
from tests.course.terminal import Terminal

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, run

NEXT = re.compile(r"\nNext: .+\n {6}pdm run [^\n]+\n\Z")
STUB, WRONG = 'raise NotImplementedError("1.1.3 Line")', "return x * slope"


def edit(checkout, old, new, name="basics.py"):
    replace(checkout / "src/tiny_llm" / name, old, new)


def changed_back(checkout):
    edit(checkout, "return 2 * mean(", "return mean(", "spread.py")


def board(checkout, *options):
    done = run(" ".join(["status", *options]), checkout)
    assert done.returncode == 0
    assert len(NEXT.findall(done.stdout)) == 1
    assert done.stdout.replace("Quiz: pdm run quiz", "").count("pdm run") == 1
    return done.stdout


@pytest.fixture(scope="module")
def origin():
    """Day 1 done but for a wrong task and a task changed since; a borrowed one, and one that is not started."""
    with fixture("1.1.1", "1.1.2", "1.2.1") as folder:
        edit(folder, STUB, WRONG)
        run("test 1.1", folder)
        run("borrow 1.2.1", folder)
        edit(folder, "return mean(", "return 2 * mean(", "spread.py")
        yield folder


@pytest.fixture
def checkout(origin, tmp_path):
    return shutil.copytree(origin, tmp_path / "tiny-llm")


def test_every_state_has_a_mark_and_words(checkout):
    text = board(checkout, "--all")
    for line in (
        "✓ 1.1.1 Mean: done",
        "~ 1.1.2 Variance: changed since it passed",
        "✗ 1.1.3 Line: failing",
        "⇢ 1.2.1 Standard scores: borrowed",
        "○ 1.2.2 Windows: not started",
    ):
        assert f"    {line}" in text
    assert "✓ done  ✗ failing  ○ not started  ⇢ borrowed  ~ to be graded\n" in text
    assert re.search(r"^✗ Day 1  .*  ✓~✗ +1 of 3 done +40 min$", text, re.MULTILINE)
    assert re.search(r"^○ Day 2  .*  ⇢○ +0 of 2 done +15 min$", text, re.MULTILINE)
    assert "  1 of 5 tasks done, 1 borrowed, 55 min to go\n" in text


def test_the_day_at_hand_is_unfolded_and_others_on_demand(checkout):
    def unfolded(*options):
        return set(re.findall(r"^ {4}. (\d\.\d)\.\d ", board(checkout, *options), re.MULTILINE))

    assert unfolded() == {"1.1"}
    assert unfolded("1.2") == unfolded("1.2.2") == unfolded("--week 1 --day 2") == {"1.2"}
    assert unfolded("1.1", "1.2") == unfolded("--all") == unfolded("--week 1") == {"1.1", "1.2"}


def test_the_next_step_is_the_first_thing_to_mend_then_to_write_then_to_return(checkout):
    assert board(checkout).endswith("\nNext: 1.1.2 Variance: changed since it passed\n      pdm run test 1.1.2\n")
    changed_back(checkout)
    assert "✓ 1.1.2 Variance: done" in board(checkout), "it is again what passed"
    assert board(checkout).endswith("\nNext: fix 1.1.3 Line, src/tiny_llm/basics.py:20\n      pdm run test 1.1.3\n")
    run("borrow 1.1.3", checkout)
    assert "\nNext: write 1.2.2 Windows, src/tiny_llm/windows.py:" in board(checkout)
    run("borrow 1", checkout)
    assert board(checkout).endswith(
        "\nNext: 1.1.1 Mean is still borrowed: write your own\n      pdm run return 1.1.1\n"
    )


def test_a_failing_task_that_is_changed_waits_for_a_verdict(checkout):
    edit(checkout, WRONG, "return x + slope")
    assert "~ 1.1.3 Line: changed since it failed" in board(checkout)
    assert board(checkout).endswith("\nNext: 2 tasks of day 1 wait for a verdict\n      pdm run test 1.1\n")


def test_a_task_that_fails_by_another_one_waits_when_that_one_has_changed(checkout):
    """1.2.1 is right, and 1.1.3 is not, which it uses."""
    changed_back(checkout)
    run("return 1.2.1", checkout)
    run("test 1.2.1", checkout)
    assert "✗ 1.2.1 Standard scores: fails because of 1.1.3" in board(checkout, "1.2")
    edit(checkout, WRONG, "return x * slope if offset is None else x * slope + offset")
    assert "~ 1.2.1 Standard scores: failed because of 1.1.3, changed since" in board(checkout, "1.2")


def test_what_was_done_and_waits_now_is_not_done(checkout):
    """A task that passed and whose need is taken away is graded as waiting, and has no verdict any more."""
    changed_back(checkout)
    run("return 1.2.1", checkout)
    run("borrow 1.1.3 1.2.2", checkout)
    run("test 1.2.1", checkout)
    assert "✓ 1.2.1 Standard scores: done" in board(checkout, "1.2")
    run("return 1.1.3", checkout)
    run("reset 1.1.3 --yes", checkout)
    run("test 1.2.1", checkout)
    text = board(checkout, "1.2")
    assert "~ 1.2.1 Standard scores: written, waits for 1.1.3" in text
    assert "\nNext: write 1.1.3 Line, src/tiny_llm/basics.py:" in text, "grading 1.2.1 would say the same again"
    run("borrow 1.1.3", checkout)
    text = board(checkout, "1.2")
    assert "~ 1.2.1 Standard scores: written, not graded yet" in text
    assert text.endswith("\n      pdm run test 1.2.1\n")


def test_a_file_that_is_gone(checkout):
    (checkout / "src/tiny_llm/basics.py").unlink()
    (checkout / ".tiny-llm/progress.json").unlink()
    (checkout / "src/tiny_llm/spread.py").unlink()
    text = board(checkout, "1.1")
    assert "○ 1.1.1 Mean: its file is missing" in text
    assert "○ 1.1.2 Variance: its file is missing" in text
    run("test 1.2", checkout)
    assert board(checkout).endswith("\nNext: 1.1.1 Mean: its file is missing\n      pdm run reset 1.1.1\n")


def test_all_done():
    with fixture("1.1.1", "1.1.2", "1.1.3", "1.2.1", "1.2.2") as checkout:
        assert run("test", checkout).returncode == 0
        text = board(checkout)
        assert "  5 of 5 tasks done\n" in text
        assert "○" not in text
        assert text.endswith('Next: all is done, run your engine\n      pdm run generate "Once upon a time"\n')


def test_an_untouched_checkout():
    with fixture(edits=(Edit("basics.py", "\n# hello\n"),)) as checkout:
        text = board(checkout)
    assert text.endswith("\nNext: write 1.1.1 Mean, src/tiny_llm/basics.py:6\n      pdm run test 1.1.1\n")
    assert "  0 of 5 tasks done, 2 h to go\n" in text


@pytest.fixture(scope="module")
def course():
    with checkout_for(Scenario("status", ())) as checkout:
        yield checkout


@pytest.mark.parametrize("columns", [20, 40, 56, 80, 200])
def test_the_longest_day_of_the_course_fits_a_terminal(course, monkeypatch, columns):
    """Each further week takes three lines, an open task one."""
    monkeypatch.setenv("COLUMNS", str(columns))
    weeks = load_course().weeks
    longest = max((day for week in weeks for day in week.days), key=lambda day: len(day.tasks))
    with Terminal("status", f"{longest.week}.{longest.number}", checkout=course) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert len(lines) <= 25 + 3 * (len(weeks) - 1) or columns < 40
    assert lines[-1].strip() == "pdm run test 1.1.1"
    assert all(len(line) <= columns or len(line.split()) == 1 for line in lines), "but for a path that is wider"
    days = [day for day in load_course().week(longest.week).days if not day.is_open]
    assert all(f"Day {day.number}" in terminal.screen for day in days)


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("status 2", "There is no week 2; there is week 1.\n"),
        ("status --week 1 --day 9", "There is no day 9 in week 1; there are days 1 and 2.\n"),
        ("status --day 2", "--day 2 needs a week:\n    pdm run status --week 1 --day 2\n"),
        ("status 1.1 --week 1", "Name a task or a day either as 1.1.2 or with --week and --day, not both.\n"),
        ("status today", "'today' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1.\n"),
    ],
)
def test_wrong_use_is_one_line(checkout, typed, line):
    done = run(typed, checkout)
    assert (done.returncode, done.stdout) == (2, line)
