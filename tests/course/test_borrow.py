"""Borrowed tasks run on the reference everywhere, in nobody's file, and are never passed."""

import ast
import subprocess
import sys
import tomllib

import pytest
from tests.course.checkouts import fixture, replace
from tests.course.checkpoint_folders import small

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, Scenario, checkout_for, environment, run
from tiny_llm_course.paths import ROOT, SOLUTION

NO_TASK = "is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1."
ON_REFERENCE = "⇢ on the reference, as you have borrowed them: "
MEAN, VARIANCE, LINE, SCORES = "1.1.1 Mean", "1.1.2 Variance", "1.1.3 Line", "1.2.1 Standard scores"


@pytest.fixture(scope="module")
def checkout():
    """What uses mean and line is solved, they are not; and mean is imported under another name."""
    renamed = (
        Edit("spread.py", "from .basics import line, mean as average", find="from .basics import line, mean"),
        Edit("spread.py", "centered = x - average(x, axis)", find="centered = x - mean(x, axis)"),
        Edit("spread.py", "return average(", find="return mean("),
        Edit("spread.py", "average(x, -1)", find="mean(x, -1)"),
    )
    with fixture("1.1.2", "1.2.1", edits=renamed) as folder:
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


def test_tasks_that_use_it_are_graded_on_the_reference(fresh):
    before = files(fresh)
    waiting = run("test 1.1.2 1.2.1", fresh)
    assert (waiting.returncode, waiting.stdout.count(": waits for 1.1.")) == (1, 2)
    assert run("borrow 1.1.1 1.1.3", fresh).returncode == 0
    done = run("test 1.1.2 1.2.1", fresh)
    assert done.returncode == 0
    assert f"✓ {VARIANCE}: passed, " in done.stdout
    assert f"✓ {SCORES}: passed, " in done.stdout
    assert f"\n{ON_REFERENCE}1.1.1, 1.1.3\n" in done.stdout
    run("return --all", fresh)
    assert run("test 1.1.2 1.2.1", fresh).stdout == waiting.stdout
    assert files(fresh) == before


def test_a_borrowed_task_is_not_passed(fresh):
    run("borrow 1.1.1 1.1.3", fresh)
    done = run("test 1.1", fresh)
    assert done.returncode == 1
    assert f"⇢ {MEAN}: borrowed (pdm run return 1.1.1 to write it yourself)\n" in done.stdout
    assert done.stdout.endswith("\n1 of 3 tasks passed. Next: 1.2.1 Standard scores.\n")
    alone = run("test 1.1.1", fresh)
    assert (alone.returncode, alone.stdout.splitlines()[-1]) == (1, "0 of 1 task passed. Next: pdm run return 1.1.1")
    both = run("test 1.1.1 1.1.3", fresh).stdout
    assert both.endswith("\n0 of 2 tasks passed. Next: pdm run return 1.1.1 1.1.3\n")
    assert ON_REFERENCE not in alone.stdout
    board = run("status", fresh).stdout
    assert "1 of 5 tasks done" in board
    assert "⇢ Day 1" in board


def test_a_selection_of_checks_leaves_it_out_too(fresh):
    run("borrow 1.1.1", fresh)
    done = run("test 1.1.1 1.1.3 -- -k task_2", fresh)
    assert "1.1.1" not in done.stdout
    assert f"{LINE}: not started" in done.stdout


def test_the_solution_is_graded_whole_whatever_is_borrowed(fresh):
    run("borrow 1.1", fresh)
    done = run("test 1.1 --solution", fresh)
    assert (done.returncode, "⇢" in done.stdout) == (0, False)


def test_pytest_in_an_editor_and_full_skip_it(fresh):
    run("borrow 1.1.1 1.1.3", fresh)
    mine = pytest_itself(fresh)
    for done in (mine, run("test 1.1 --full", fresh)):
        assert done.returncode == 0
        assert "5 passed, 13 skipped" in done.stdout
    assert "borrowed (pdm run return 1.1.1)" in mine.stdout
    assert "skipped" not in pytest_itself(fresh, "--solution").stdout


def test_ones_own_mistake_in_it_harms_nobody():
    edits = (Edit("basics.py", "\n\ndef line(x, slope, offset=None):\n    return x\n"),)
    with fixture("1.1.1", "1.1.2", "1.1.3", "1.2.1", edits=edits) as checkout:
        assert run("test 1.2.1", checkout).returncode == 1
        run("borrow 1.1.3", checkout)
        assert run("test 1.2.1", checkout).returncode == 0


def test_a_mistake_beside_it_is_named_and_what_is_borrowed_is_no_culprit():
    edits = (Edit("spread.py", "mx.abs(centered)", find="centered * centered"),)
    with fixture("1.1.2", "1.2.1", edits=edits) as checkout:
        run("borrow 1.1.1 1.1.3", checkout)
        done = run("test 1.1.2 1.2.1", checkout)
    assert "Your output equals what you get when the distances from the mean are not squared." in done.stdout
    assert "this task is right, 1.1.2 which it uses is not" in done.stdout


def test_the_engine_runs_on_it(checkpoint):
    """With all of the course borrowed, the untouched stubs are an engine."""
    model = checkpoint(small())
    with checkout_for(Scenario("engine", ())) as checkout:
        typed = f"generate Once --temp 0 --max-tokens 9 --model {model}"
        assert "not started: 1.5.3 The model" in run(typed, checkout).stdout
        run("borrow 1", checkout)
        command = [sys.executable, "-m", "tiny_llm_course", *typed.split()]
        mine, ours = (
            subprocess.run(
                [*command, *solution], cwd=checkout, env=environment(checkout), capture_output=True, text=True
            )
            for solution in ([], ["--solution", "--stage", "week1"])
        )
        assert (mine.returncode, mine.stdout) == (0, ours.stdout)
        assert mine.stderr.startswith(f"{ON_REFERENCE}1\n")
        assert "⇢" not in ours.stderr


def test_no_target_is_the_base_of_a_class_in_its_own_file():
    """Borrowing replaces a class once its file has run: a subclass there would keep the learner's."""
    for target in {task.program for task in load_course().tasks() if task.program.file.endswith(".py")}:
        tree = ast.parse((SOLUTION / target.file).read_text(encoding="utf-8"))
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        bases = {ast.unparse(base): node.name for node in classes for base in node.bases}
        assert target.name.partition(".")[0] not in bases, target


@pytest.mark.maintainers
@pytest.mark.parametrize("task", ["6.2.4", "7.5.1"])
def test_processes_that_a_check_starts_borrow_as_well(task):
    with checkout_for(Scenario("borrowed", (), (task,))) as folder:
        assert run(f"borrow {' '.join(load_course().needs(task))}", folder).returncode == 0
        done = run(f"test {task}", folder)
        assert done.returncode == 0, done.stdout


def test_what_is_optional_and_not_started_runs_on_the_reference():
    with checkout_for(Scenario("optional", (), ("1.1.1", "1.1.2", "1.1.3", "1.3.1", "1.3.2", "4.2.4"))) as checkout:
        both = run("test 4.2.3 4.2.4", checkout).stdout
        assert "○ 4.2.3 Dropout: not started, optional\n" in both
        assert "✓ 4.2.4 Attention that returns its weights: passed, " in both
        assert "\n⇢ on the reference, as you have borrowed or skipped them: 4.2.3\n" in both
        assert "○ 4.2.3 Dropout: not started, optional\n" in run("test 4.2.3", checkout).stdout
        stub = 'raise NotImplementedError("4.2.3 Dropout")'
        replace(checkout / "src/tiny_llm/fused_qkv/dropout.py", stub, "return 2 * x")
        assert "this task is right, 4.2.3 which it uses is not" in run("test 4.2.4", checkout).stdout
        run("borrow 1 2.1 2.3.1 2.3.2 2.3.3 2.3.4 2.3.6 2.3.7", checkout)
        text = run("generate 'Once upon a time' --temp 0 --max-tokens 3 --cpu --stage quantized", checkout).stdout
        assert "⇢ on the reference, as you have borrowed or skipped them: 1, 2.1, 2.3.1, 2.3.2, " in text
        assert ", 2.3.4, 2.3.5, 2.3.6, 2.3.7\n" in text
        assert "Once upon a time, there was" in text
        assert "(quantized, 4-bit weights made from bfloat16)" in text


# --- what the two commands say


def at_a_prompt(checkout, lines, **more):
    """What is shown where `pdm run python` was started, in a folder of the checkout."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pdm"]["scripts"]
    startup = scripts["_"]["env"]["PYTHONSTARTUP"].replace("${PDM_PROJECT_ROOT}", str(ROOT))
    done = subprocess.run(
        [sys.executable, "-q", "-i"], input=lines, cwd=checkout / "book",
        env={**environment(checkout), "PYTHONSTARTUP": startup, **more},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout


def test_a_prompt_borrows_too(fresh, tmp_path):
    """And after it the user's own startup file runs."""
    theirs = tmp_path / "startup.py"
    theirs.write_text("mine = 7\n", encoding="utf-8")
    mean = "import mlx.core as mx\nfrom tiny_llm.basics import mean\nmean(mx.array([0.0, 1.0]), 0).tolist()\n"
    assert f'NotImplementedError("{MEAN}")' in at_a_prompt(fresh, mean)
    run("borrow 1.1.1", fresh)
    names = "[name for name in globals() if name[0] != '_']\nmine\n"
    screen = at_a_prompt(fresh, mean + names, TINY_LLM_THEIR_STARTUP=str(theirs))
    assert "Borrowed here as well: 1.1.1" in screen
    assert "[0.5]" in screen
    assert "['mine', 'mx', 'mean']" in screen
    assert "Traceback" not in screen
    gone = str(tmp_path / "gone.py")
    assert "Traceback" not in at_a_prompt(fresh, names.partition("mine")[0], TINY_LLM_THEIR_STARTUP=gone)


def test_a_method_of_ones_own_class_is_borrowed_with_the_private_ones_it_uses():
    mine = Edit("spread.py", "    def mine(self):\n        return 1\n\n    def __call__", find="    def __call__")
    lines = (
        "import mlx.core as mx\n"
        "from tiny_llm.spread import Standardizer\n"
        "scores = Standardizer(mx.ones(2), mx.zeros(2))\n"
        "scores.mine(), [round(x, 3) for x in scores(mx.array([0.0, 2.0])).tolist()]\n"
    )
    with fixture(edits=(mine,)) as checkout:
        run("borrow 1.2.1", checkout)
        assert "(1, [-1.0, 1.0])" in at_a_prompt(checkout, lines)


def test_borrowing_twice_borrowing_what_is_passed_and_nothing(fresh):
    assert run("borrow", fresh).stdout.startswith("Nothing is borrowed. ")
    run("borrow 1.1.1 1.1.3", fresh)
    run("test 1.1.2", fresh)
    done = run("borrow 1.1.3 1.1.2 1.2", fresh)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:4] == [
        f"⇢ {VARIANCE}: borrowed, although yours passes",
        f"⇢ {LINE}: already borrowed",
        f"⇢ {SCORES}: borrowed",
        "⇢ 1.2.2 Windows: borrowed",
    ]
    assert "pdm run return 1.1.3 1.1.2 1.2" in done.stdout
    assert len(run("borrow", fresh).stdout.splitlines()) == 6
    run("return 1.1.2", fresh)
    assert f"✓ {VARIANCE}: done" in run("status 1.1", fresh).stdout


def test_returning(fresh):
    run("borrow 1.1.1 1.2", fresh)
    done = run("return 1.2.1 1.1.3", fresh)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{SCORES}: returned; your own code counts again\n1.1.3: was not borrowed\n")
    assert run("return 1.2", fresh).stdout.startswith("1.2.2 Windows: returned")
    assert run("return --all", fresh).stdout.startswith(f"{MEAN}: returned")
    assert run("return", fresh).stdout.startswith("Nothing is borrowed. ")
    assert (
        run("borrow --week 1 --day 2", fresh)
        .stdout.splitlines()[-1]
        .startswith("To use your own again: pdm run return 1.2 ")
    )
    assert run("return --week 1", fresh).stdout.startswith(f"{SCORES}: returned")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("borrow 1.9", "There is no day 9 in week 1; there are days 1 and 2.\n"),
        ("borrow 1.1.2 1.1.9", "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3.\n"),
        ("borrow variance", f"'variance' {NO_TASK} Did you mean 1.1.2?\n"),
        ("return 1.1.2", "1.1.2 is not borrowed. Borrowed: 1.1.3.\n    pdm run return 1.1.3\n"),
        ("return 1.1.3 nothing", f"'nothing' {NO_TASK}\n"),
        ("return 1.1.3 --all", "Name tasks or days, or use --all, not both.\n"),
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


def test_both_packages_know_the_objects_that_the_other_makes():
    """7.1.4 takes the grammar that 7.1.3 returns apart by the classes of its parts, which are given."""
    with checkout_for(Scenario("classes", (), ("7.1.4",))) as checkout:
        assert run("borrow 7.1.1 7.1.2 7.1.3", checkout).returncode == 0
        assert "✓ 7.1.4 A pushdown automaton: passed" in run("test 7.1.4", checkout).stdout
