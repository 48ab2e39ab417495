"""The command line's rules that a transcript cannot show: colour, Ctrl-C, raw pytest, the memory of hints."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from tiny_llm_course import progress
from tiny_llm_course.paths import ROOT

SOLVED = ["test", "1.1.1", "--solution"]


def tiny_llm(*args: str, **kwargs) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiny_llm_course", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, **kwargs)


def on_a_terminal(*args: str, **environment: str) -> str:
    """What the command prints to a terminal."""
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environment
    process = subprocess.Popen([sys.executable, "-m", "tiny_llm_course", *args], stdout=theirs, cwd=ROOT, env=env)
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:
        pass  # how Linux says that the terminal has no other end any more
    os.close(ours)
    assert process.wait() == 0
    return output.decode()


def test_colour_on_a_terminal_only_and_never_against_no_color():
    assert "\x1b[" in on_a_terminal(*SOLVED)
    assert "\x1b[" not in on_a_terminal(*SOLVED, NO_COLOR="1")
    assert "\x1b[" not in tiny_llm(*SOLVED).stdout


def test_full_shows_pytest_itself():
    done = tiny_llm(*SOLVED, "--full")
    assert done.returncode == 0
    assert "test session starts" in done.stdout
    assert "19 passed" in done.stdout


def test_a_week_of_the_solution_is_graded_whole():
    done = tiny_llm("test", "--week", "1", "--solution")
    assert done.returncode == 0
    assert "4 of 4 tasks passed" in done.stdout


def test_what_stands_after_the_dashes_goes_to_pytest():
    done = tiny_llm("test", "--week", "1", "--day", "1", "--solution", "--", "-k", "task_2 and five or square")
    assert done.returncode == 0
    assert "1.1.3 Linear: passed, 1 check\n" in done.stdout
    assert "1.1.1" not in done.stdout


def test_ctrl_c_ends_cleanly():
    process = subprocess.Popen(
        [sys.executable, "-m", "tiny_llm_course", "test", "1.1", "--solution"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err.strip()) == (130, "interrupted")
    assert "Traceback" not in out
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # nobody of the group is left


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
