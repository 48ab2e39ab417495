"""The command line's rules that a transcript cannot show: color, Ctrl-C, raw pytest, the memory of hints."""

import os
import pty
import signal
import subprocess
import sys
import time

import psutil
import pytest
from tests.course.checkouts import fixture
from tests.course.terminal import all_of

from tiny_llm_course.dev.transcripts import environment
from tiny_llm_course.learner import progress

SOLVED = ["test", "1.1.1", "--solution"]


@pytest.fixture(scope="module")
def checkout():
    with fixture() as folder:
        yield folder


def tiny_llm(checkout, *args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiny_llm_course", *args]
    env = environment(checkout) | settings
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def on_a_terminal(checkout, *args: str, **settings: str) -> str:
    """What the command prints to a terminal."""
    ours, theirs = pty.openpty()
    env = {name: value for name, value in environment(checkout).items() if name != "NO_COLOR"} | settings
    process = subprocess.Popen([sys.executable, "-m", "tiny_llm_course", *args], stdout=theirs, cwd=checkout, env=env)
    os.close(theirs)
    output = all_of(ours)
    assert process.wait() == 0
    return output.decode()


def test_color_on_a_terminal_only_and_never_against_no_color(checkout):
    assert "\x1b[" in on_a_terminal(checkout, *SOLVED)
    assert "\x1b[" not in on_a_terminal(checkout, *SOLVED, NO_COLOR="1")
    assert "\x1b[" not in tiny_llm(checkout, *SOLVED).stdout


def test_full_shows_pytest_itself(checkout):
    done = tiny_llm(checkout, *SOLVED, "--full")
    assert done.returncode == 0
    assert "test session starts" in done.stdout
    assert "5 passed" in done.stdout


def test_a_week_of_the_solution_is_graded_whole(checkout):
    done = tiny_llm(checkout, "test", "--week", "1", "--solution")
    assert done.returncode == 0
    assert "✓ 1.1.1 to 1.1.3: passed, 18 checks\n" in done.stdout
    assert done.stdout.endswith("5 of 5 tasks passed in all.\n")


def test_what_stands_after_the_dashes_goes_to_pytest(checkout):
    done = tiny_llm(
        checkout, "test", "--week", "1", "--day", "1", "--solution", "--", "-k", "task_2 and refuses or square"
    )
    assert done.returncode == 0
    assert "1.1.3 Line: passed, 1 check\n" in done.stdout
    assert "1.1.1" not in done.stdout


def test_a_selection_may_fit_one_day_of_several(checkout):
    done = tiny_llm(checkout, "test", "1.1", "1.2", "--solution", "--", "-k", "close_numbers")
    assert done.returncode == 0
    assert "1.2.1 Standard scores: passed, 1 check\n" in done.stdout
    nothing = tiny_llm(checkout, "test", "1.1", "1.2", "--solution", "--", "-k", "nothing")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (2, "", "No check matches -k nothing.\n")


@pytest.mark.parametrize(
    ("number", "status", "words"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "")]
)
def test_an_ending_ends_the_graded_process_too(checkout, number, status, words):
    command = [sys.executable, "-m", "tiny_llm_course", "test", "1.1", "--solution"]
    pipe, env = subprocess.PIPE, environment(checkout)
    process = subprocess.Popen(command, cwd=checkout, env=env, stdout=pipe, stderr=pipe, text=True)
    harness, started = psutil.Process(process.pid), time.monotonic()
    while not harness.children():
        assert time.monotonic() - started < 20
        time.sleep(0.01)
    children = harness.children(recursive=True)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err.strip()) == (status, words)
    assert "Traceback" not in out
    assert not psutil.wait_procs(children, timeout=5)[1]


def test_torch_that_is_not_there_is_one_line(checkout, tmp_path):
    """A Python in which torch cannot be found: one line, and nobody's code has failed."""
    hidden = """
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torch" else find_spec(name, package)
"""
    (tmp_path / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    path = f"{tmp_path}{os.pathsep}{environment(checkout)['PYTHONPATH']}"
    done = tiny_llm(checkout, *SOLVED, "--oracle", "torch", PYTHONPATH=path)
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, "")


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "FILE", tmp_path / "folder" / "progress.json")
    return tmp_path / "folder" / "progress.json"


def test_hints_are_remembered(memory):
    assert progress.hints_seen("1.1.1") == 0
    progress.hint_shown("1.1.1", 2)
    progress.hint_shown("1.1.2", 1)
    assert (progress.hints_seen("1.1.1"), progress.hints_seen("1.1.2")) == (2, 1)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"hints": 3}', '{"hints": {"1.1.1": "two"}}', "\0"])
def test_a_damaged_memory_costs_only_the_memory(memory, damage):
    memory.parent.mkdir()
    memory.write_text(damage)
    assert progress.hints_seen("1.1.1") == 0
    progress.hint_shown("1.1.1", 1)
    assert progress.hints_seen("1.1.1") == 1
