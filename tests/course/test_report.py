"""A run is told on one screen, however much there is to mend."""

import re
import shutil

import pytest

from tiny_llm_course.transcripts import Scenario, checkout_for, run

ROWS = 60


@pytest.fixture(scope="module")
def all_wrong():
    """Every task is begun, and raises; the day before a task never hides that, as constructors are left alone."""
    with checkout_for(Scenario("all-wrong", ())) as checkout:
        for file in (checkout / "src/tiny_llm").glob("*.py"):
            text = file.read_text(encoding="utf-8")
            file.write_text(
                re.sub(r"raise NotImplementedError\(.*\)", "raise ValueError('no')", text), encoding="utf-8"
            )
        yield checkout


@pytest.fixture(scope="module")
def two_days():
    """Day 1 is done, day 2 begun, day 3 not."""
    with checkout_for(Scenario("two-days", (), ("1.1.1", "1.1.2", "1.1.3", "1.1.4", "1.2.1"))) as checkout:
        yield checkout


@pytest.mark.parametrize("typed", ["test", "test 1", "test --week 1 --day 6"])
def test_when_everything_is_wrong_the_first_is_told_in_full(all_wrong, typed):
    done = run(typed, all_wrong)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) <= ROWS
    in_full = re.findall(r"hint: pdm run hint (\S+)", done.stdout)
    short = re.findall(r"✗ (?P<id>\S+) .*: failed, .* · pdm run test (?P=id)\n", done.stdout)
    assert in_full
    assert in_full + short == re.findall(r"✗ (\S+) .*: failed", done.stdout)
    assert bool(short) == ("day" not in typed)


def test_files_that_cannot_be_imported_and_loans_are_told_once_each(all_wrong, tmp_path):
    checkout = shutil.copytree(all_wrong, tmp_path / "tiny-llm", symlinks=True)
    for name, line in (("tokenizer", "def oops(:"), ("sampler", "import nothing_such")):
        with (checkout / f"src/tiny_llm/{name}.py").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    run("borrow 1.1.1 1.2.1", checkout)
    screen = run("test 1", checkout).stdout
    assert len(screen.splitlines()) <= ROWS
    why = "failed, src/tiny_llm/tokenizer.py cannot be imported\n"
    assert f"✗ 1.6.1, 1.6.2, 1.6.3, 1.6.4, 1.6.5: {why}" in screen
    assert screen.count("tokenizer.py:") == 2, "told once, and to be mended next"
    assert screen.count("⇢ on the reference") == 1
    assert "\n⇢ on the reference, as you have borrowed them: 1.1.1, 1.2.1\n0 of 27 tasks passed in all" in screen


def test_days_with_nothing_to_mend_have_one_line_each(two_days):
    screen = run("test 1.1 1.2 1.3", two_days).stdout
    assert re.search(r"^✓ 1\.1\.1 to 1\.1\.4: passed, \d+ checks$", screen, re.M)
    assert re.search(r"^✓ 1\.2\.1 Rotation angles: passed, \d+ checks$", screen, re.M)
    assert "○ 1.3.1 to 1.3.3: not started · read book/src/week1/day3.md\n" in screen
    assert screen.endswith("5 of 9 tasks passed in all. Next: 1.2.2 RoPE.\n")


def test_tasks_that_are_no_whole_day_are_named(two_days):
    screen = run("test 1.1.1 1.1.3 1.3", two_days).stdout
    assert re.search(r"^✓ 1\.1\.1, 1\.1\.3: passed, \d+ checks$", screen, re.M)


def test_a_borrowed_day_is_one_line_and_not_what_to_do_next(two_days):
    run("borrow 1.3", two_days)
    run("borrow 1.2.2", two_days)
    try:
        everything = run("test", two_days)
        assert "⇢ 1.3.1 to 1.3.3: borrowed (pdm run return 1.3 to write them yourself)\n" in everything.stdout
        assert everything.stdout.endswith("\n5 of 9 tasks passed in all, 4 borrowed. Next: pdm run status\n")
        assert len(re.findall("tasks? passed", everything.stdout)) == 1
        named = run("test 1.3", two_days).stdout
        assert named.endswith("\n0 of 3 tasks passed. Next: pdm run return 1.3.1 1.3.2 1.3.3\n")
    finally:
        run("return --all", two_days)


def test_when_all_has_passed_the_board_is_next_for_the_learner_alone(two_days):
    assert run("test 1.1", two_days).stdout.endswith("\n4 of 4 tasks passed. Next: pdm run status\n")
    assert run("test 1.1 --solution", two_days).stdout.endswith("\n4 of 4 tasks passed.\n")


def test_our_solution_is_told_in_one_sum_however_much_is_written(two_days):
    done = run("test --solution -- -k mlx", two_days)
    assert done.returncode == 0
    assert len(re.findall("tasks? passed", done.stdout)) == 1
