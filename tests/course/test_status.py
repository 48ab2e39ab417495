"""The board: every state in a mark and in words, on a small screen, and one next step."""

import re
import shutil

import pytest
from tests.course.terminal import Terminal

from tiny_llm_course.transcripts import Edit, Scenario, checkout_for, run

NEXT = re.compile(r"\nNext: .+\n {6}pdm run [^\n]+\n\Z")
LINEAR = ('raise NotImplementedError("1.1.3 Linear")', "return x @ w")


def edit(checkout, old, new, name="basics.py"):
    file = checkout / "src/tiny_llm" / name
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def board(checkout, *options):
    done = run(" ".join(["status", *options]), checkout)
    assert done.returncode == 0
    assert len(NEXT.findall(done.stdout)) == 1
    assert done.stdout.count("pdm run") == 1
    return done.stdout


@pytest.fixture(scope="module")
def origin():
    """Day 1 done but for a wrong task, a task changed since, a borrowed one; something written and not graded."""
    with checkout_for(Scenario("status", (), solved=("1.1.1", "1.1.2", "1.1.4", "1.2.1", "1.3.1"))) as folder:
        edit(folder, *LINEAR)
        run("test 1.1 1.2.1", folder)
        run("borrow 1.2.2", folder)
        edit(folder, "return softmax(", "return 2 * softmax(", "attention.py")
        yield folder


@pytest.fixture
def checkout(origin, tmp_path):
    return shutil.copytree(origin, tmp_path / "tiny-llm")


def test_every_state_has_a_mark_and_words(checkout):
    text = board(checkout, "--all")
    for line in (
        "✓ 1.1.1 Softmax: done",
        "~ 1.1.2 Scaled dot-product attention: changed since it passed",
        "✗ 1.1.3 Linear: failing",
        "✓ 1.2.1 Rotation angles: done",
        "⇢ 1.2.2 RoPE: borrowed",
        "~ 1.3.1 Causal mask: written, not graded yet",
        "○ 1.3.2 Grouped attention: not started",
    ):
        assert f"    {line}" in text
    assert "✓ done  ✗ failing  ○ not started  ⇢ borrowed  ~ to be graded\n" in text
    assert re.search(r"^✗ Day 1  .*  ✓~✗✗ +1 of 4 done  1 h 25 min$", text, re.MULTILINE)
    assert re.search(r"^⇢ Day 2  .*  ✓⇢ +1 of 2 done$", text, re.MULTILINE)
    assert "  2 of 27 tasks done, 9 h 50 min to go\n" in text


def test_the_day_at_hand_is_unfolded_and_others_on_demand(checkout):
    def unfolded(*options):
        return set(re.findall(r"^ {4}. (\d\.\d)\.\d ", board(checkout, *options), re.MULTILINE))

    assert unfolded() == {"1.1"}
    assert unfolded("1.4") == unfolded("1.4.2") == unfolded("--week 1 --day 4") == {"1.4"}
    assert unfolded("1.4", "1.6") == {"1.4", "1.6"}
    assert unfolded("--all") == unfolded("--week 1") == {f"1.{day}" for day in range(1, 8)}


def test_the_next_step_is_the_first_thing_to_mend_then_to_write_then_to_return(checkout):
    assert board(checkout).endswith(
        "\nNext: 1.1.2 Scaled dot-product attention: changed since it passed\n      pdm run test 1.1.2\n"
    )
    edit(checkout, "return 2 * softmax(", "return softmax(", "attention.py")
    assert "✓ 1.1.2 Scaled dot-product attention: done" in board(checkout), "it is again what passed"
    assert board(checkout).endswith("\nNext: mend 1.1.3 Linear, src/tiny_llm/basics.py:26\n      pdm run test 1.1.3\n")
    run("borrow 1.1.3 1.1.4 1.3.1", checkout)
    assert "\nNext: write 1.3.2 Grouped attention, src/tiny_llm/attention.py:" in board(checkout)
    run("borrow 1", checkout)
    assert board(checkout).endswith(
        "\nNext: 1.1.1 Softmax is still borrowed: write it yourself\n      pdm run return 1.1.1\n"
    )


def test_a_failing_task_that_is_changed_waits_for_a_verdict(checkout):
    edit(checkout, "return x @ w", "return x @ w.T")
    assert "~ 1.1.3 Linear: changed since it failed" in board(checkout)
    assert board(checkout).endswith("\nNext: 3 tasks of day 1 wait for a verdict\n      pdm run test 1.1\n")


def test_a_task_that_fails_by_another_one_waits_when_that_one_has_changed(checkout):
    """1.1.4 is right, and 1.1.3 is not, which it uses."""
    edit(checkout, "return 2 * softmax(", "return softmax(", "attention.py")
    run("test 1.1", checkout)
    assert "✗ 1.1.4 Multi-head attention: fails by 1.1.3" in board(checkout)
    edit(checkout, "return x @ w", "return x @ w.T if bias is None else x @ w.T + bias")
    assert "~ 1.1.4 Multi-head attention: failed by 1.1.3, changed since" in board(checkout)


def test_what_was_done_and_waits_now_is_not_done(checkout):
    """A task that passed and whose need is taken away is graded as waiting, and has no verdict any more."""
    run("borrow 1.1.3", checkout)
    run("test 1.1.4", checkout)
    assert "Multi-head attention: changed" not in board(checkout)
    run("return 1.1.3", checkout)
    run("reset 1.1.3 --yes", checkout)
    run("test 1.1.4", checkout)
    edit(checkout, "return 2 * softmax(", "return softmax(", "attention.py")
    text = board(checkout)
    assert "~ 1.1.4 Multi-head attention: written, waits for 1.1.3" in text
    assert "\nNext: write 1.1.3 Linear, src/tiny_llm/basics.py:" in text, "grading 1.1.4 would say the same again"
    run("borrow 1.1.3", checkout)
    text = board(checkout)
    assert "~ 1.1.4 Multi-head attention: written, not graded yet" in text
    assert text.endswith("\n      pdm run test 1.1.4\n")


def test_a_file_that_is_gone(checkout):
    (checkout / "src/tiny_llm/basics.py").unlink()
    (checkout / ".tiny-llm/progress.json").unlink()
    (checkout / "src/tiny_llm/attention.py").unlink()
    text = board(checkout, "1.1")
    assert "○ 1.1.1 Softmax: its file is gone" in text
    assert "○ 1.1.2 Scaled dot-product attention: its file is gone" in text
    run("test 1.2", checkout)
    assert board(checkout).endswith("\nNext: 1.1.1 Softmax: its file is gone\n      pdm run reset 1.1.1\n")


def test_all_done():
    solved = [f"1.{day}.{task}" for day in range(1, 8) for task in range(1, 8)]
    with checkout_for(Scenario("status", (), solved=tuple(solved))) as checkout:
        assert run("test", checkout).returncode == 0
        text = board(checkout)
        assert "  27 of 27 tasks done\n" in text
        assert "○" not in text
        assert text.endswith('Next: all is done, run what you have built\n      pdm run generate "Once upon a time"\n')


def test_an_untouched_checkout():
    with checkout_for(Scenario("status", (), edits=(Edit("basics.py", "\n# hello\n"),))) as checkout:
        text = board(checkout)
    assert text.endswith("\nNext: write 1.1.1 Softmax, src/tiny_llm/basics.py:6\n      pdm run test 1.1.1\n")
    assert "0 of 27 tasks done, 11 h 10 min to go" in text


@pytest.mark.parametrize("columns", [20, 40, 56, 80, 200])
def test_it_fits_a_terminal(checkout, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    with Terminal("status", "1.6", checkout=checkout) as terminal:
        assert terminal.end() == 0
    lines = terminal.screen.splitlines()
    assert len(lines) <= 24 or columns < 40, "the longest day unfolded"
    assert lines[-1].strip() == "pdm run test 1.1.2"
    assert max(map(len, lines)) <= columns
    assert all(f"Day {day}" in terminal.screen for day in range(1, 8))


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("status 2", "There is no week 2; there is week 1.\n"),
        ("status --week 1 --day 9", "There is no day 9 in week 1; there are days 1 to 7.\n"),
        ("status --day 2", "--day 2 needs a week:\n    pdm run status --week 1 --day 2\n"),
        ("status 1.1 --week 1", "Name a task or a day either as 1.1.2 or with --week and --day, not both.\n"),
        ("status today", "'today' is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1.\n"),
    ],
)
def test_wrong_use_is_one_line(checkout, typed, line):
    done = run(typed, checkout)
    assert (done.returncode, done.stdout) == (2, line)
