"""`pdm run compare`: it has to be earned, it shows both codes and other ways, and its figures are measured."""

import dataclasses
import os
import pty
import re
import subprocess
import sys

import mlx.core as mx
import pytest
from tests.course.terminal import all_of

from tiny_llm_course import compare, limited, replay, speed
from tiny_llm_course.day_files import variants_path
from tiny_llm_course.own_code import NoSuchCode, code_of, code_of_variant
from tiny_llm_course.packages import SOLUTION_NAME, program
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.registry import Target, load_course
from tiny_llm_course.transcripts import Edit, Scenario, checkout_for, run
from tiny_llm_course.variants import load_variants

TASKS = load_course().tasks()
EXPONENTIALS = "exponentials = mx.exp(shifted)"
SLOW = f"""{EXPONENTIALS}
    for _ in range(20):
        exponentials = exponentials + 0 * mx.exp(shifted - exponentials)"""


@pytest.fixture(scope="module")
def checkout():
    edits = (Edit("basics.py", put=SLOW, find=EXPONENTIALS), Edit("layer_norm.py", put="x = (\n"))
    scenario = Scenario("compare", (), ("1.1.1", "1.1.2"), edits)
    with checkout_for(scenario) as folder:
        yield folder


def on_a_terminal(checkout, width: int, **environment: str) -> str:
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"PYTHONPATH": str(checkout / "src"), "COLUMNS": str(width), "TERM": "xterm-256color"} | environment
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
    order += ["another way: reciprocal  (tests/week1/variants_day1.py:", "def by_reciprocal"]
    order += ["another way: float32-inside", "Speed and memory, where ours is 1:", "runs in turns; ours takes"]
    places = [done.stdout.index(part) for part in order]
    assert places == sorted(places)
    assert '"""' not in done.stdout  # both docstrings are the same, and left out
    assert "def linear" not in done.stdout  # another task of the same file
    assert "\x1b[" not in done.stdout
    ratio = re.search(r"\n  yours +time ([\d.]+) \(slower\)", done.stdout)
    assert ratio
    assert float(ratio[1]) > 2  # twenty times the work


def test_it_has_to_be_earned(checkout):
    done = run("compare 1.1.3", checkout)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            "1.1.3 Linear has not passed yet, and compare shows ours when yours has passed. First:",
            "    pdm run test 1.1.3",
            "To see ours all the same:",
            "    pdm run compare 1.1.3 --spoil",
        ],
    )
    run("borrow 1.1.3", checkout)
    borrowed = run("compare 1.1.3", checkout)
    run("return 1.1.3", checkout)
    assert borrowed.returncode == 1
    assert borrowed.stdout.startswith("1.1.3 Linear is borrowed, ")
    assert borrowed.stdout.splitlines()[1] == "    pdm run return 1.1.3"


def test_the_progress_file_is_not_taken_for_a_pass(checkout):
    memory = checkout / ".tiny-llm" / "progress.json"
    memory.parent.mkdir(exist_ok=True)
    memory.write_text('{"tasks": {"1.1.3": {"status": "passed", "code": ""}}}', encoding="utf-8")
    assert run("compare 1.1.3", checkout).returncode == 1


def test_spoil_shows_it_anyway_and_measures_nothing(checkout):
    done = run("compare 1.1.3 --spoil", checkout)
    assert done.returncode == 0
    assert 'raise NotImplementedError("1.1.3 Linear")' in done.stdout
    assert "ours  (solutions/tiny_llm/basics.py" in done.stdout
    assert done.stdout.endswith("Speed: not measured, your code does not compute the same as ours yet.\n")


def test_spoil_of_a_file_that_is_not_python(checkout):
    done = run("compare 1.4.1 --spoil", checkout)
    assert done.returncode == 0
    assert "layer_norm.py is not Python" in done.stdout
    assert "class RMSNorm" in done.stdout
    assert done.stdout.endswith("Speed: not measured, layer_norm.py cannot be imported or has no RMSNorm.\n")


def test_a_task_that_does_not_exist_is_one_line(checkout):
    done = run("compare 1.1.9", checkout)
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)
    assert done.stdout.startswith("There is no task 1.1.9.")


def test_side_by_side_in_colour_where_there_is_room(checkout):
    wide, narrow, plain = on_a_terminal(checkout, 120), on_a_terminal(checkout, 60), on_a_terminal(
        checkout, 120, NO_COLOR="1"
    )  # fmt: skip
    heads = "yours  src/tiny_llm/basics.py", "ours  solutions/tiny_llm/basics.py"
    assert any(all(head in line for head in heads) for line in plain.splitlines())
    assert not any(all(head.split()[1] in line for head in heads) for line in narrow.splitlines())
    assert all("\x1b[" in screen for screen in (wide, narrow))
    assert "\x1b[" not in plain
    assert max(map(len, plain.splitlines())) <= 120


def test_an_endless_loop_is_ended(checkout):
    """In the measuring process, which --spoil starts for code that has never been graded."""
    file = checkout / "src" / "tiny_llm" / "basics.py"
    before = file.read_text(encoding="utf-8")
    limits = checkout / "src" / "tiny_llm_course" / "child_process.py"
    try:
        loop = '    while "1.1.3":\n        pass'
        file.write_text(before.replace('    raise NotImplementedError("1.1.3 Linear")', loop), encoding="utf-8")
        assert loop in file.read_text(encoding="utf-8")
        seconds = limits.read_text(encoding="utf-8")
        limits.write_text(seconds.replace("seconds: float = 20.0", "seconds: float = 3.0"), encoding="utf-8")
        done = run("compare 1.1.3 --spoil", checkout)
    finally:
        file.write_text(before, encoding="utf-8")
    assert done.returncode == 0
    assert done.stdout.endswith("Speed: not measured, still running after 3 s.\n")


def test_a_process_that_takes_too_much_or_fails_is_ended():
    assert limited.run_limited("no_such_module", [], 20.0, 1 << 30) == "the process ended with exit code 1"
    assert limited.run_limited("cli", ["--help"], 20.0, 1 << 10).startswith("used more than")
    assert limited.run_limited("paths", [], 20.0, 1 << 30) == ""


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_the_code_of_every_task_and_of_its_other_ways_can_be_shown(task):
    for target in task.targets:
        source = code_of(SOLUTION, target)
        compile(source, "shown", "exec")
        assert '"""' not in source
    day = load_course().day(task.week, task.day)
    for variant in load_variants(day).accepted_of(task.id):
        try:
            line, source = code_of_variant(variants_path(day), variant)
        except NoSuchCode:
            assert variant.name == "in-steps"  # what the mistakes are built from, with nothing replaced
            continue
        compile(source, "shown", "exec")
        assert variants_path(day).read_text(encoding="utf-8").splitlines()[line - 1] == source.splitlines()[0]


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


def same_twice(task_id):
    """The timing of the solution against itself."""
    task = load_course().task(task_id)
    variants = load_variants(load_course().day(task.week, task.day))
    ours = program(task.targets[0], SOLUTION_NAME)
    probe = variants.first_probe(task_id)
    assert probe
    steps = speed._steps(lambda subject: replay.taken_down(probe, subject), ours, ours)
    return speed._against("", steps, ours, ours)


@pytest.mark.parametrize("task", ["1.1.2", "1.2.2", "1.3.1", "1.5.2", "1.6.2", "1.6.3", "1.6.5", "1.7.1"])
def test_inputs_are_made_large_enough_to_time(task):
    timing = same_twice(task)
    assert (timing.failed, timing.runs >= 3) == ("", True)
    assert timing.low <= timing.ratio <= timing.high
    assert 0.2 < timing.ratio < 5
    assert timing.seconds > speed.TOO_SMALL / 2


def test_figures_claim_no_more_than_was_measured():
    first = speed.Timing("", "arrays of 2", 9, 0.01, 1.05, 1.0, 1.1, 4 << 20, 1.0)
    rows = [
        ("yours", first),
        ("slow", dataclasses.replace(first, ratio=12.3, low=11, high=13, memory_ratio=0.5, inputs="arrays of 1")),
        ("noisy", dataclasses.replace(first, ratio=1.3, low=0.9, high=1.9, memory=100, memory_ratio=9.0)),
        ("large", dataclasses.replace(first, ratio=0.5, low=0.4, high=0.6, memory=1 << 19, memory_ratio=8.0)),
        ("tiny", dataclasses.replace(first, failed="too small to time")),
    ]
    assert compare._table(rows, first) == [
        "  yours  time 1.05 (the same) · memory 1.00 (the same)",
        "  slow   time 12 (slower) · memory 0.50 (less) · on arrays of 1",
        "  noisy  time 1.30 (unclear, half of the runs: 0.90 to 1.90)",
        "  large  time 0.50 (faster) · memory 4 MB, ours less than 1",
        "  tiny   too small to time",
    ]


def test_what_is_too_small_to_time_is_not_timed():
    assert same_twice("1.6.1").failed == "too small to time"


def test_larger_inputs_keep_their_proportions():
    asked = (replay.Call("", (mx.zeros((2, 1, 3)), 4, "mean"), {"scale": 0.5}),)
    (larger,) = replay.all_axes(asked, 4)
    assert (larger.args[0].shape, larger.args[1:], larger.kwargs) == ((8, 1, 12), (4, "mean"), {"scale": 0.5})
    (larger,) = replay.all_axes_and_numbers(asked, 4)
    assert larger.args[1:] == (16, "mean")
    assert replay.in_words((larger,)) == "arrays of 8 x 1 x 12"
