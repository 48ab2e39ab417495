"""Borrowed tasks run on the reference everywhere, in nobody's file, and are never passed."""

import os
import subprocess
import sys
import tomllib

import pytest
from tests.course.checkpoint_folders import small

from tiny_llm_course.transcripts import Edit, Scenario, checkout_for, run

NO_TASK = "is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1."
ON_REFERENCE = "⇢ on the reference, as you have borrowed them: "


def checkout_where(solved, *edits):
    return checkout_for(Scenario("borrow", (), solved=tuple(solved), edits=edits))


@pytest.fixture(scope="module")
def checkout():
    """What uses softmax and linear is solved, they are not; and softmax is imported under another name."""
    renamed = (
        Edit(
            "attention.py", "from .basics import linear, softmax as weights", find="from .basics import linear, softmax"
        ),
        Edit("attention.py", "weights(scores, axis=-1)", find="softmax(scores, axis=-1)"),
    )
    with checkout_where(["1.1.2", "1.1.4"], *renamed) as folder:
        yield folder


@pytest.fixture
def fresh(checkout):
    (checkout / ".tiny-llm/progress.json").unlink(missing_ok=True)
    return checkout


def files(checkout):
    return {file.name: file.read_bytes() for file in (checkout / "src/tiny_llm").glob("*.py")}


def pytest_itself(checkout, *args):
    """As an editor starts it."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "tests/week1/test_day1.py", *args]
    return subprocess.run(command, cwd=checkout, env=environment(checkout), capture_output=True, text=True)


def environment(checkout):
    return {**os.environ, "PYTHONPATH": str(checkout / "src")}


def test_tasks_that_use_it_are_graded_on_the_reference(fresh):
    before = files(fresh)
    waiting = run("test 1.1.2 1.1.4", fresh)
    assert (waiting.returncode, waiting.stdout.count(": waits for 1.1.")) == (1, 2)
    assert run("borrow 1.1.1 1.1.3", fresh).returncode == 0
    done = run("test 1.1.2 1.1.4", fresh)
    assert done.returncode == 0
    assert "✓ 1.1.2 Scaled dot-product attention: passed, " in done.stdout
    assert "✓ 1.1.4 Multi-head attention: passed, " in done.stdout
    assert f"\n{ON_REFERENCE}1.1.1, 1.1.3\n" in done.stdout
    run("return --all", fresh)
    assert run("test 1.1.2 1.1.4", fresh).stdout == waiting.stdout
    assert files(fresh) == before


def test_a_borrowed_task_is_not_passed(fresh):
    run("borrow 1.1.1 1.1.3", fresh)
    done = run("test 1.1", fresh)
    assert done.returncode == 1
    assert "⇢ 1.1.1 Softmax: borrowed (pdm run return 1.1.1 to write it yourself)\n" in done.stdout
    assert done.stdout.endswith("\n2 of 4 tasks passed. Next: pdm run status\n")
    alone = run("test 1.1.1", fresh)
    assert (alone.returncode, alone.stdout.splitlines()[-1]) == (1, "0 of 1 task passed. Next: pdm run return 1.1.1")
    both = run("test 1.1.1 1.1.3", fresh).stdout
    assert both.endswith("\n0 of 2 tasks passed. Next: pdm run return 1.1.1 1.1.3\n")
    assert ON_REFERENCE not in alone.stdout
    board = run("status", fresh).stdout
    assert "2 of 27 tasks done" in board
    assert "⇢ Day 1" in board


def test_a_selection_of_checks_leaves_it_out_too(fresh):
    run("borrow 1.1.1", fresh)
    done = run("test 1.1.1 1.1.3 -- -k task_2", fresh)
    assert "1.1.1" not in done.stdout
    assert "1.1.3 Linear: not started" in done.stdout


def test_the_solution_is_graded_whole_whatever_is_borrowed(fresh):
    run("borrow 1.1", fresh)
    done = run("test 1.1 --solution", fresh)
    assert (done.returncode, "⇢" in done.stdout) == (0, False)


def test_pytest_in_an_editor_and_full_skip_it(fresh):
    run("borrow 1.1.1 1.1.3", fresh)
    for done in (pytest_itself(fresh), run("test 1.1 --full", fresh)):
        assert done.returncode == 0
        assert " passed, 48 skipped" in done.stdout
    assert "borrowed (pdm run return 1.1.1)" in pytest_itself(fresh).stdout
    assert "skipped" not in pytest_itself(fresh, "--solution").stdout


def test_ones_own_mistake_in_it_harms_nobody():
    edits = (Edit("basics.py", "\n\ndef linear(x, w, bias=None):\n    return x @ w\n"),)
    with checkout_where(["1.1.1", "1.1.2", "1.1.3", "1.1.4"], *edits) as checkout:
        assert run("test 1.1.4", checkout).returncode == 1
        run("borrow 1.1.3", checkout)
        assert run("test 1.1.4", checkout).returncode == 0


def test_a_mistake_beside_it_is_named_and_what_is_borrowed_is_no_culprit():
    edits = (Edit("attention.py", "scale = 1.0", find="scale = query.shape[-1] ** -0.5"),)
    with checkout_where(["1.1.2", "1.1.4"], *edits) as checkout:
        run("borrow 1.1.1 1.1.3", checkout)
        done = run("test 1.1.2 1.1.4", checkout)
    assert "Your output equals what you get when the default scale 1/sqrt(D) is missing." in done.stdout
    assert "this task is right, 1.1.2 which it uses is not" in done.stdout


def test_a_method_of_ones_own_class():
    with checkout_where(["1.6.1", "1.6.2", "1.6.5", "1.6.6", "1.6.7"]) as checkout:
        run("borrow 1.6.3 1.6.4", checkout)
        done = run("test 1.6.7 1.6.5", checkout)
        assert done.returncode == 0
        assert ON_REFERENCE + "1.6.3\n" in done.stdout


def test_the_engine_runs_on_it(checkpoint):
    """With all of the week borrowed, the untouched stubs are an engine."""
    model = checkpoint(small())
    with checkout_where([]) as checkout:
        typed = f"generate Once --temp 0 --max-tokens 9 --model {model}"
        assert "not started: 1.5.3 The model" in run(typed, checkout).stdout
        run("borrow 1", checkout)
        command = [sys.executable, "-m", "tiny_llm_course", *typed.split()]
        mine, ours = (
            subprocess.run(
                [*command, *solution], cwd=checkout, env=environment(checkout), capture_output=True, text=True
            )
            for solution in ([], ["--solution"])
        )
        assert (mine.returncode, mine.stdout) == (0, ours.stdout)
        assert mine.stderr.startswith(f"{ON_REFERENCE}1.1.1, 1.1.2, ")
        assert "⇢" not in ours.stderr


# --- what the two commands say


def test_a_prompt_borrows_too(fresh, tmp_path):
    """As `pdm run python` starts it: in a folder of the checkout, and after it the user's own startup file."""
    shared = tomllib.loads((fresh / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pdm"]["scripts"]["_"]["env"]
    assert shared["PYTHONSTARTUP"].startswith("${PDM_PROJECT_ROOT}/")
    theirs = tmp_path / "startup.py"
    theirs.write_text("mine = 7\n", encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(fresh / "src"),
        "PYTHONSTARTUP": shared["PYTHONSTARTUP"].replace("${PDM_PROJECT_ROOT}", str(fresh)),
    }

    def typed(lines, **more):
        done = subprocess.run(
            [sys.executable, "-q", "-i"], input=lines, cwd=fresh / "book", env=environment | more,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    softmax = "import mlx.core as mx\nfrom tiny_llm.basics import softmax\nsoftmax(mx.zeros(2), 0).tolist()\n"
    assert 'NotImplementedError("1.1.1 Softmax")' in typed(softmax)
    run("borrow 1.1.1", fresh)
    names = "[name for name in globals() if name[0] != '_']\nmine\n"
    screen = typed(softmax + names, TINY_LLM_THEIR_STARTUP=str(theirs))
    assert "Borrowed here as well: 1.1.1" in screen
    assert "[0.5, 0.5]" in screen
    assert "['mine', 'mx', 'softmax']" in screen
    assert "Traceback" not in screen
    assert "Traceback" not in typed(names.partition("mine")[0], TINY_LLM_THEIR_STARTUP=str(tmp_path / "gone.py"))


def test_borrowing_twice_borrowing_what_is_passed_and_nothing(fresh):
    assert run("borrow", fresh).stdout.startswith("Nothing is borrowed. ")
    run("borrow 1.1.1 1.1.3", fresh)
    run("test 1.1.4", fresh)
    done = run("borrow 1.1.3 1.1.4 1.2", fresh)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:4] == [
        "⇢ 1.1.3 Linear: was borrowed before",
        "⇢ 1.1.4 Multi-head attention: borrowed, though your own passes",
        "⇢ 1.2.1 Rotation angles: borrowed",
        "⇢ 1.2.2 RoPE: borrowed",
    ]
    assert "pdm run return 1.1.3 1.1.4 1.2" in done.stdout
    assert len(run("borrow", fresh).stdout.splitlines()) == 6
    run("return 1.1.4", fresh)
    assert "✓ 1.1.4 Multi-head attention: done" in run("status 1.1", fresh).stdout


def test_returning(fresh):
    run("borrow 1.1.1 1.2", fresh)
    done = run("return 1.2.1 1.1.3", fresh)
    assert done.returncode == 0
    assert done.stdout.startswith(
        "1.2.1 Rotation angles: returned, your own code counts again\n1.1.3: was not borrowed\n"
    )
    assert run("return 1.2", fresh).stdout.startswith("1.2.2 RoPE: returned")
    assert run("return --all", fresh).stdout.startswith("1.1.1 Softmax: returned")
    assert run("return", fresh).stdout.startswith("Nothing is borrowed. ")
    assert (
        run("borrow --week 1 --day 2", fresh).stdout.splitlines()[-1].startswith("To take it back: pdm run return 1.2 ")
    )
    assert run("return --week 1", fresh).stdout.startswith("1.2.1 Rotation angles: returned")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("borrow 1.9", "There is no day 9 in week 1; there are days 1 to 7.\n"),
        ("borrow 1.1.2 1.1.9", "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3, 1.1.4.\n"),
        ("borrow softmax", f"'softmax' {NO_TASK} Did you mean 1.1.1?\n"),
        ("return 1.1.2", "1.1.2 is not borrowed. Borrowed: 1.1.3.\n    pdm run return 1.1.3\n"),
        ("return 1.1.3 nothing", f"'nothing' {NO_TASK}\n"),
        ("return 1.1.3 --all", "Name tasks or days, or say --all, not both.\n"),
    ],
)
def test_wrong_use_is_one_line_and_changes_nothing(fresh, typed, line):
    run("borrow 1.1.3", fresh)
    before = (fresh / ".tiny-llm/progress.json").read_bytes()
    done = run(typed, fresh)
    assert (done.returncode, done.stdout) == (2, line)
    assert (fresh / ".tiny-llm/progress.json").read_bytes() == before


def test_nothing_borrowed_is_nothing_to_return(fresh):
    for typed in ("return 1.1", "return --all"):
        done = run(typed, fresh)
        assert (done.returncode, done.stdout) == (0, run("borrow", fresh).stdout)
        assert done.stdout.startswith("Nothing is borrowed. ")
