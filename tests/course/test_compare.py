"""`pdm run compare`: it has to be earned, it shows both codes and other ways, and its figures are measured."""

import os
import pty
import re
import subprocess
import sys
from functools import partial

import mlx.core as mx
import pytest
from tests.course.checkouts import fixture, replace
from tests.course.terminal import all_of

from tiny_llm_course.commands import compare as command
from tiny_llm_course.course.entities import Target
from tiny_llm_course.course.file_paths import variants_path
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Edit, environment, run
from tiny_llm_course.grading import processes
from tiny_llm_course.measuring import speed
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.programs.packages import SOLUTION_NAME, program
from tiny_llm_course.programs.patched import source_of
from tiny_llm_course.source.excerpts import NoSuchCode, code_of, code_of_variant
from tiny_llm_course.testkit.variants import Size, load_variants

TASKS = load_course().tasks()
TOTAL = "total = mx.sum(x, axis=axis, keepdims=True)"
SLOW = f"""{TOTAL}
    for _ in range(20):
        total = total + 0 * mx.sum(x - total, axis=axis, keepdims=True)"""


@pytest.fixture(scope="module")
def checkout():
    edits = (Edit("basics.py", put=SLOW, find=TOTAL), Edit("spread.py", put="x = (\n"))
    with fixture("1.1.1", edits=edits) as folder:
        yield folder


def on_a_terminal(checkout, width: int, **settings: str) -> str:
    ours, theirs = pty.openpty()
    env = {name: value for name, value in environment(checkout).items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"COLUMNS": str(width), "TERM": "xterm-256color"} | settings
    command = [sys.executable, "-m", "tiny_llm_course", "compare", "1.1.1"]
    process = subprocess.Popen(command, stdout=theirs, cwd=checkout, env=env, stdin=subprocess.DEVNULL)
    os.close(theirs)
    output = all_of(ours)
    assert process.wait() == 0
    return output.decode().replace("\r", "")


def test_your_code_beside_ours_and_other_ways_with_figures(checkout):
    done = run("compare 1.1.1", checkout)
    assert done.returncode == 0
    order = ["yours  (src/tiny_llm/basics.py:", "for _ in range(20)", "ours  (solutions/tiny_llm/basics.py:"]
    order += ["another way: shares  (tests/week1/variants_1_1_1.py:", "def shares"]
    order += ["Speed and memory, relative to ours:", "On x 64 x 4,096, float32 (CPU, ", " interleaved runs; ours takes"]
    places = [done.stdout.index(part) for part in order]
    assert places == sorted(places)
    assert '"""' not in done.stdout  # both docstrings are the same, and left out
    assert "def line" not in done.stdout  # another task of the same file
    assert "\x1b[" not in done.stdout
    ratio = re.search(r"\n  yours +time ([\d.]+) \(slower\)", done.stdout)
    assert ratio
    assert float(ratio[1]) > 2  # twenty times the work


def test_it_has_to_be_earned(checkout):
    done = run("compare 1.1.3", checkout)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "1.1.3 Line has not passed yet; compare shows ours once yours has passed. First:",
            "    pdm run test 1.1.3",
            "To see ours anyway:",
            "    pdm run compare 1.1.3 --spoil",
        ],
    )
    run("borrow 1.1.3", checkout)
    borrowed = run("compare 1.1.3", checkout)
    run("return 1.1.3", checkout)
    assert borrowed.returncode == 1
    assert borrowed.stdout.startswith("1.1.3 Line is borrowed, ")
    assert borrowed.stdout.splitlines()[1] == "    pdm run return 1.1.3"


def test_the_progress_file_is_not_taken_for_a_pass(checkout):
    memory = checkout / ".tiny-llm" / "progress.json"
    memory.parent.mkdir(exist_ok=True)
    memory.write_text('{"tasks": {"1.1.3": {"status": "passed", "code": ""}}}', encoding="utf-8")
    assert run("compare 1.1.3", checkout).returncode == 1


def test_spoil_shows_it_anyway_and_measures_nothing(checkout):
    done = run("compare 1.1.3 --spoil", checkout)
    assert done.returncode == 0
    assert 'raise NotImplementedError("1.1.3 Line")' in done.stdout
    assert "ours  (solutions/tiny_llm/basics.py" in done.stdout
    assert done.stdout.endswith("Speed: not measured, your code does not compute the same as ours yet.\n")


def test_spoil_of_a_file_that_is_not_python(checkout):
    done = run("compare 1.1.2 --spoil", checkout)
    assert done.returncode == 0
    assert "spread.py is not Python" in done.stdout
    assert "def variance" in done.stdout
    assert done.stdout.endswith("Speed: not measured, spread.py cannot be imported or has no variance.\n")


def test_a_task_that_does_not_exist_is_one_line(checkout):
    done = run("compare 1.1.9", checkout)
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)
    assert done.stdout.startswith("There is no task 1.1.9.")


def test_side_by_side_in_color_where_there_is_room(checkout):
    wide, narrow, plain = on_a_terminal(checkout, 120), on_a_terminal(checkout, 60), on_a_terminal(
        checkout, 120, NO_COLOR="1"
    )  # fmt: skip
    heads = "yours  src/tiny_llm/basics.py", "ours  solutions/tiny_llm/basics.py"
    assert any(all(head in line for head in heads) for line in plain.splitlines())
    assert not any(all(head.split()[1] in line for head in heads) for line in narrow.splitlines())
    assert all("\x1b[" in screen for screen in (wide, narrow))
    assert "\x1b[" not in plain
    assert max(map(len, plain.splitlines())) <= 120


def test_a_task_that_is_not_timed_says_why(checkout):
    done = run("compare 1.2.1 --spoil", checkout)
    assert done.returncode == 0
    assert done.stdout.endswith("\n\nNot timed: a line after a mean.\n")


STUB = 'raise NotImplementedError("1.1.3 Line")'


def test_code_that_fails_on_the_larger_size_is_one_line():
    fails = "return x * slope + (0 if offset is None else offset) + 0 // (x.size < 999)"
    with fixture(edits=(Edit("basics.py", put=fails, find=STUB),)) as checkout:
        done = run("compare 1.1.3 --spoil", checkout)
    assert done.returncode == 0
    why = "your code raises ZeroDivisionError, on x 128 x 256, slope 256, float32"
    assert done.stdout.endswith(f"\nSpeed: not measured, {why}.\n")


def test_an_endless_loop_is_ended():
    """In the measuring process, which --spoil starts for code that has never been graded."""
    with fixture(edits=(Edit("basics.py", put="while True:\n        pass", find=STUB),)) as checkout:
        replace(checkout / "src/tiny_llm_course/course/tasks/week1.toml", 'id = "1.1.3"', 'id = "1.1.3"\nseconds = 2')
        done = run("compare 1.1.3 --spoil", checkout)
    assert done.returncode == 0
    assert done.stdout.endswith("Speed: not measured, still running after 2 s.\n")


def test_a_process_that_takes_too_much_or_fails_is_ended():
    assert processes.run_limited("no_such_module", [], 20.0, 1 << 30) == "the process ended with exit code 1"
    assert processes.run_limited("commands.cli", ["--help"], 20.0, 1 << 10).startswith("used more than")
    assert processes.run_limited("paths", [], 20.0, 1 << 30) == ""


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_code_of_every_task_and_of_its_other_ways_can_be_shown(task):
    source = code_of(SOLUTION, task.target)
    if not task.target.is_python:
        whole = (SOLUTION / task.target.file).read_text(encoding="utf-8")
        assert re.sub(r"(?m)^ +", "", source) in re.sub(r"(?m)^ +", "", whole)
        assert "--- " not in source
        return
    compile(source, "shown", "exec")
    assert '"""' not in source
    for variant in load_variants(task).accepted_programs:
        if variant.edits:
            compile(source_of(task.target, variant.edits), "shown", "exec")
            continue
        try:
            line, source = code_of_variant(variants_path(task), variant.name)
        except NoSuchCode:
            assert variant.name == "in-steps"  # what the mistakes are built from, with nothing replaced
            continue
        compile(source, "shown", "exec")
        assert variants_path(task).read_text(encoding="utf-8").splitlines()[line - 1] == source.splitlines()[0]


HELPED = '''
def _used(x):
    return _deeper(x)


def _deeper(x):
    """Only words."""


def _unused(x):
    return x


class C:
    """C."""

    def go(self):
        """Go.

        On.
        """

        return _used(self._mine())

    def _mine(self):
        return 1

    def other(self):
        return 2
'''


def test_private_helpers_are_shown_and_what_is_missing_is_said(tmp_path):
    (tmp_path / "a.py").write_text(HELPED, encoding="utf-8")
    expected = (
        'def _used(x):\n    return _deeper(x)\n\ndef _deeper(x):\n    """Only words."""\n\n'
        "def go(self):\n    return _used(self._mine())\n\ndef _mine(self):\n    return 1\n"
    )
    assert code_of(tmp_path, Target("a", "C.go")) == expected
    for target, words in [("a:nothing", "a.py defines no nothing"), ("b:x", "b.py cannot be read")]:
        with pytest.raises(NoSuchCode, match=words):
            code_of(tmp_path, Target.parse(target))


@pytest.mark.parametrize("task", ["1.1.1", "1.6.2"])
def test_the_solution_against_itself(task):
    known = load_variants(load_course().task(task))
    ours = program(known.task.target, SOLUTION_NAME)
    timing = speed.against("", known.size, ours, ours)
    assert (timing.failed, timing.runs >= 3, timing.seconds > 0) == ("", True, True)
    assert timing.low <= timing.ratio <= timing.high


def failed(subject, ours=sorted):
    """Why a program has no figures, on a size that is built once and run often."""
    size = Size("x 2 x 3", lambda program: partial(program, mx.array([[3.0, 1.0, 2.0]] * 2)))
    return speed.against("another", size, subject, ours).failed


def test_only_programs_that_compute_the_same_are_timed(monkeypatch):
    assert failed(lambda x: x * 1.0001, mx.array) == ""
    assert failed(lambda x: x * 1.1, mx.array) == "computes another result than ours"
    assert failed(lambda x: x.shape, lambda x: (2, 3)) == ""
    assert failed(lambda x: x.size, lambda x: (2, 3)) == "computes another result than ours"
    assert failed(lambda x: x @ x, mx.array) == "raises ValueError"
    monkeypatch.setattr(speed, "TOO_LONG", 0.0)
    assert re.fullmatch(r"takes \S+ s, and ours \S+ s", failed(mx.array, mx.array))


def test_figures_claim_no_more_than_was_measured():
    first = speed.Timing("", 9, 0.01, 1.05, 1.0, 1.1, 4 << 20, 1.0)
    rows = [
        ("yours", first),
        ("slow", first._replace(ratio=12.3, low=11, high=13, memory_ratio=0.5)),
        ("noisy", first._replace(ratio=1.3, low=0.9, high=1.9, memory=100, memory_ratio=9.0)),
        ("large", first._replace(ratio=0.5, low=0.4, high=0.6, memory=1 << 19, memory_ratio=8.0)),
        ("unfit", first._replace(failed="raises MemoryError")),
    ]
    assert command._table(rows) == [
        "  yours  time 1.05 (the same) · memory 1.00 (the same)",
        "  slow   time 12 (slower) · memory 0.50 (less)",
        "  noisy  time 1.30 (unclear, half of the runs: 0.90 to 1.90)",
        "  large  time 0.50 (faster) · memory 4 MB, ours less than 1",
        "  unfit  raises MemoryError",
    ]
