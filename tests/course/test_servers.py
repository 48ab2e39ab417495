"""`running_server`: waits until a server answers, says why it does not, and never leaves it behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from urllib.request import urlopen

import psutil
import pytest
from tests.course.processes import gone

from tiny_llm_course.course.findings import CheckFailed
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.servers import running_server

pytestmark = needs("port")
SERVER = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "{port}"]
# Starts another process, says which one it is, and serves nothing.
PARENT = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); "
# A grading process that is killed while its server runs.
GRADES = f"""
import sys, time
from tiny_llm_course.testkit.servers import running_server
with running_server({SERVER!r}) as port:
    print(port, flush=True)
    time.sleep(60)
"""


def server_on(port: int) -> int:
    """The process of the server that this one has started, also by way of others."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[1:3] == SERVER[1:3] and process.cmdline()[-1] == str(port):
                return process.pid
    raise LookupError(port)


def test_a_server_answers_on_its_port_and_ends_with_the_block():
    with running_server(SERVER) as port:
        assert urlopen(f"http://127.0.0.1:{port}/").status == 200
        pid = server_on(port)
    assert gone(pid)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_ends_when_the_test_does_not_get_to_its_end(error):
    pids = []

    def fail() -> None:
        with running_server(SERVER) as port:
            pids.append(server_on(port))
            raise error

    with pytest.raises(error):
        fail()
    assert gone(pids[0])


def test_a_server_that_ends_is_told_with_its_last_words():
    with (
        pytest.raises(CheckFailed) as caught,
        running_server([sys.executable, "-c", "import sys; sys.exit('no model')"]),
    ):
        pass
    assert caught.value.finding.headline == "your server ended before it answered (exit code 1)"
    assert caught.value.finding.lines == ("wrote     no model",)


def test_a_server_that_does_not_answer_is_ended_with_what_it_has_started(tmp_path):
    command = [sys.executable, "-c", f"{PARENT} p.wait()"]
    with pytest.raises(CheckFailed) as caught, running_server(command, seconds=0.5):
        pass
    assert caught.value.finding.headline == "your server did not answer within 0.5 s"
    assert gone(int(caught.value.finding.lines[0].split()[-1]))


def test_a_server_that_ends_while_it_is_used_is_to_blame():
    command = [sys.executable, "-c", "import socket, sys; s = socket.create_server(('127.0.0.1', {port})); s.accept()"]

    def fail() -> None:
        with running_server(command):
            time.sleep(0.5)
            raise ConnectionError

    with pytest.raises(CheckFailed, match=r"your server ended while it was used [(]exit code 0[)]"):
        fail()


def test_it_ends_when_the_process_that_has_started_it_is_killed():
    process = subprocess.Popen([sys.executable, "-c", GRADES], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    pid = server_on(int(process.stdout.readline()))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert gone(pid)
