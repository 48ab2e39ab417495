"""A forked program does what a started one does: the same words, the same exit code, the same way to be killed."""

import os
import signal
import subprocess
import sys

import pytest
from tests.course import fork_process
from tests.course.checkouts import fixture

from tiny_llm_course.dev.transcripts import environment


@pytest.fixture(scope="module")
def checkout():
    with fixture("1.1.1") as made:
        yield made


def both(words, checkout, **more):
    """What becomes of a command, forked and started."""
    command, settings = [sys.executable, *words], {**environment(checkout), **more}
    for start in (subprocess.Popen, fork_process.really_start):
        with start(command, cwd=checkout, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            yield process.communicate()[0].decode(), process.returncode


@pytest.mark.parametrize("words", [("status",), ("test", "1.1.1"), ("test", "1.1.3"), ("stauts",), ("test", "7.7.7")])
def test_it_says_the_same(checkout, words):
    forked, started = both(["-m", "tiny_llm_course", *words], checkout)
    assert forked == started
    assert forked[0]


def test_it_is_a_child_of_ours_and_no_python_was_started(tmp_path):
    program = tmp_path / "tiny_llm_course" / "__main__.py"
    program.parent.mkdir()
    program.with_name("__init__.py").touch()
    says = "print(os.getpid(), os.getppid(), 'hypothesis' in sys.modules, flush=True)"
    # It is ours once the process between us has ended, which may take a moment.
    waits = "until = time.time() + 9\nwhile os.getppid() != int(sys.argv[1]) and time.time() < until: time.sleep(0.01)"
    program.write_text(f"import os, sys, time\n{waits}\n{says}\ntime.sleep(60)", encoding="utf-8")
    command = [sys.executable, "-m", "tiny_llm_course", str(os.getpid())]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        told = process.stdout.readline().split()
        assert told == [str(process.pid), str(os.getpid()), str(subprocess.Popen is not fork_process.really_start)]
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1].splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("name", ["random.py", "json/__init__.py", "src/sitecustomize.py"])
def test_a_file_in_the_way_of_a_library_is_found_as_ever(checkout, name):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("print('in the way', flush=True)\nraise SystemExit(7)", encoding="utf-8")
    try:
        forked, started = both(["-m", "tiny_llm_course", "status"], checkout)
        assert forked == started
        assert "in the way" in forked[0]
    finally:
        (checkout / name).unlink()
