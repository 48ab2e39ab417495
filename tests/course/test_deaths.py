"""How a process ended, in words: from its exit status, and from what faulthandler wrote."""

import signal
import subprocess
import sys

import psutil
import pytest

from tiny_llm_course.course.findings import Kind
from tiny_llm_course.grading.exits import Trace, cause_of_exit, death, death_of_import, trace_of
from tiny_llm_course.paths import COURSE, LEARNER, ROOT, TESTS

IN_CHECK = f"""  File "{COURSE}/testkit/agreement.py", line 85 in agrees
  File "{TESTS}/week1/test_day1.py", line 30 in test_task_1_softmax_formula
  File "/usr/lib/python3/pluggy/_manager.py", line 12 in _hookexec
"""
IN_SOFTMAX = f"""  File "/usr/lib/python3/mlx.py", line 1 in eval
  File "{LEARNER}/basics.py", line 3 in softmax
{IN_CHECK}"""


@pytest.mark.parametrize(
    "trace",
    [
        f"Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n{IN_SOFTMAX}",
        f"Thread 0x01 (most recent call first):\n{IN_SOFTMAX}",
        "Current thread 0x02 (most recent call first):\n  <no Python frame>\n\n"
        f"Thread 0x01 [main] (most recent call first):\n{IN_SOFTMAX}",
    ],
    ids=["the thread that crashed", "none of Python's", "one without lines"],
)
def test_the_learners_line_is_found_in_whatever_thread_it_waits(trace):
    assert trace_of(trace, LEARNER) == Trace(("src/tiny_llm/basics.py:3  import mlx.core as mx",))


def test_of_two_threads_of_the_learners_the_one_that_ran_counts_then_the_oldest():
    other = f'  File "{LEARNER}/basics.py", line 1 in _forever\n'
    threads = f"Thread 0x02 (most recent call first):\n{other}\nThread 0x01 (most recent call first):\n{IN_SOFTMAX}"
    assert trace_of(threads, LEARNER).frames[0].startswith("src/tiny_llm/basics.py:3")
    assert trace_of(f"Current t{threads[1:]}", LEARNER).frames[0].startswith("src/tiny_llm/basics.py:1")


def test_lines_that_are_given_and_only_call_a_kernel_are_not_the_learners():
    call = f'  File "{LEARNER}/kernels/native.py", line 39 in matvec_scalar\n'
    assert trace_of(f"Thread 0x01 (most recent call first):\n{call}", LEARNER) == Trace()


def test_a_result_that_is_computed_after_the_learners_code_has_returned():
    trace = trace_of(f"Thread 0x01 (most recent call first):\n{IN_CHECK}", LEARNER)
    assert trace == Trace(computing=True)
    lines = death("it crashed", trace, "test_x").lines
    assert lines == ("after your code had returned, while its result was evaluated", "check     test_x")


@pytest.mark.parametrize("text", ["", 'Thread 0x01 (most recent call first):\n  File "/usr/lib/x.py", line 3 in f\n'])
def test_nothing_is_claimed_where_nothing_is_known(text):
    trace = trace_of(text, LEARNER)
    assert trace == Trace()
    assert death("it crashed", trace, "").lines == ()


def test_an_import_ends_at_the_innermost_file_whose_own_lines_ran():
    trace = trace_of(
        f"""Current thread 0x01 (most recent call first):
  File "{LEARNER}/basics.py", line 12 in softmax
  File "{LEARNER}/more/helpers.py", line 2 in <module>
  File "{LEARNER}/attention.py", line 5 in <module>
""",
        LEARNER,
    )
    module, finding = death_of_import("still running", trace, "attention", LEARNER)
    assert (module, finding.kind, finding.place) == ("more.helpers", Kind.NO_IMPORT, "src/tiny_llm/more/helpers.py:2")
    assert finding.headline == "src/tiny_llm/more/helpers.py cannot be imported: still running"
    module, finding = death_of_import("it crashed", Trace(), "attention", LEARNER)
    assert (module, finding.place) == ("attention", "src/tiny_llm/attention.py")


def test_paths_that_faulthandler_cannot_write():
    text = f'Thread 0x01 (most recent call first):\n  File "{ROOT}/src/tiny_llm/modul\\xe9.py", line 1 in f\n'
    assert trace_of(text, LEARNER).frames == ("src/tiny_llm/modulé.py:1",)


def test_signals_in_words():
    words = "the process crashed: SIGSEGV, a memory fault in native code"
    assert cause_of_exit(-signal.SIGSEGV, by_python=False) == words
    assert cause_of_exit(-signal.SIGALRM, by_python=False) == "the process crashed: SIGALRM"
    assert cause_of_exit(-63, by_python=False) == "the process crashed: signal 63"
    assert "your code" in cause_of_exit(0, by_python=True)
    assert "your code" not in cause_of_exit(0, by_python=False)


def test_what_was_written_last_is_shown_and_cannot_fill_the_screen():
    finding = death("it crashed", Trace(), "test_x", "noise\n\nterminate called\n  what(): no \x1b kernel" + "!" * 999)
    assert finding.lines[0] == "wrote     terminate called"
    assert finding.lines[1].startswith("wrote     what(): no ? kernel!!!")
    assert len(finding.lines[1]) < 200
    assert finding.lines[2:] == ("check     test_x",)


def test_a_child_ends_with_its_parent():
    """Killed by SIGKILL, a parent cannot end its children itself."""
    asleep = "import subprocess, time; subprocess.Popen(['sleep', '60']); print('ready', flush=True); time.sleep(60)"
    limited = f"from tiny_llm_course.grading.processes import run_command; import sys; run_command([sys.executable, '-c', {asleep!r}], 60.0, 1 << 40, output=None)"  # noqa: E501
    with subprocess.Popen([sys.executable, "-c", limited], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"ready\n"
        started = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
        assert len(started) >= 3  # Python, sleep, and the process that waits for the parent's end
        assert not psutil.wait_procs(started, timeout=20)[1]
