"""The limits of grading: seconds by task, and the memory of a process with all that it has started."""

import dataclasses
import subprocess
import sys
import threading

import psutil
import pytest
from tests.course.processes import gone

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.grading import processes, supervisor
from tiny_llm_course.grading.processes import Cancelled, Tree, run_command
from tiny_llm_course.grading.supervisor import Limits

MB = 1 << 20
# A process in a session of its own that holds 200 MB; its parent holds next to nothing.
CHILD = "x = bytearray(200 << 20); import time; print('ready', flush=True); time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}], start_new_session=True)"


def test_a_task_has_its_own_seconds_unless_others_are_asked_for(monkeypatch):
    course = load_course()
    slow = dataclasses.replace(course.task("1.1.1"), seconds=90)
    monkeypatch.setattr(supervisor, "load_course", lambda: type("Course", (), {"task": lambda self, name: slow})())
    assert Limits().allowed("1.1.1") == 90
    assert Limits(seconds=3.0).allowed("1.1.1") == 3
    assert Limits().allowed("") == 20, "an import belongs to no task"


@pytest.mark.parametrize(("load", "counted"), [(0.3, 1.0), (2.0, 1.0), (4.0, 0.5), (80.0, 0.25)])
def test_where_more_want_a_core_than_there_are_a_second_counts_less(monkeypatch, load, counted):
    """Of two cores; and a machine that has slept has not computed."""
    now = iter([10.0, 11.0, 99.0])
    monkeypatch.setattr(processes.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(processes.os, "getloadavg", lambda: (load, 0, 0))
    monkeypatch.setattr(processes.time, "monotonic", lambda: next(now))
    stopwatch = processes.Stopwatch()
    assert stopwatch.look() == counted
    assert stopwatch.look() == 2 * counted


def test_the_memory_of_a_process_in_another_session_counts_and_it_ends_with_the_tree():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, process_group=0)
    tree = Tree(parent.pid)
    assert parent.stdout
    with parent.stdout as pipe:
        pipe.readline()
    (child,) = psutil.Process(parent.pid).children()
    try:
        assert tree.resident() > 200 * MB
    finally:
        tree.end()
        parent.wait()
    assert gone(child.pid)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("pass", ""),
        ("import sys; sys.exit(3)", "the process ended with exit code 3"),
        ("import time; time.sleep(60)", "still running after 0.3 s"),
    ],
)
def test_why_a_command_did_not_end_as_it_should(code, why):
    assert run_command([sys.executable, "-c", code], 0.3 if why[:1] == "s" else 20.0, 1 << 30) == why


def test_a_command_with_too_large_a_child_is_ended():
    why = run_command([sys.executable, "-c", PARENT], 20.0, 100 * MB)
    assert why == "used more than 0.0977 GB of memory"


def test_a_command_that_nobody_waits_for_is_ended():
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        run_command([sys.executable, "-c", "import time; time.sleep(60)"], 20.0, 1 << 30, cancelled=cancelled)
