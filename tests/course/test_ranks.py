"""`pdm run dist` and its launcher: ranks that work, die, hang or are interrupted, and the one message that follows."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from tests.course.processes import gone

from tiny_llm_course.doctor.machine import backends_in_words
from tiny_llm_course.paths import SOLUTION
from tiny_llm_course.ranks import Ranks, RanksFailed, launch
from tiny_llm_course.ranks.environment import cores_of, free_ports

BEGIN = """
import os, signal, sys, time
import mlx.core as mx
from tiny_llm.distributed.group import start

group = start()
x = mx.ones(3)
"""
LATER = "time.sleep(1)"  # on a busy machine, too, the other ranks are at their calls by then
OURS = {"PYTHONPATH": str(SOLUTION.parent)}


@pytest.fixture
def program(tmp_path):
    """`program(text)` writes a program of all ranks, and gives the command that runs it."""

    def write(text: str) -> list[str]:
        (tmp_path / "work.py").write_text(BEGIN + text, encoding="utf-8")
        return [sys.executable, str(tmp_path / "work.py")]

    return write


def failure(command: list[str], ranks: int = 2, timeout: float = 60.0) -> str:
    with pytest.raises(RanksFailed) as failed:
        launch(command, ranks, timeout=timeout, environment=OURS)
    return re.sub(r"work.py:\d+", "work.py:N", str(failed.value))


def test_ranks_talk_and_what_each_prints_is_returned(program):
    command = program("group.send(x * group.rank, group.right)\nprint(group.receive((3,), mx.float32, group.left))")
    assert launch(command, 2, environment=OURS) == [f"array([{n}, {n}, {n}], dtype=float32)\n" for n in (1, 0)]


def test_a_rank_alone_has_a_group_of_one(program):
    assert launch(program("print(group.size, group.all_sum(x).tolist())"), 1, environment=OURS) == [
        "1 [1.0, 1.0, 1.0]\n"
    ]


def test_a_rank_that_raises(program):
    command = program(
        f"if group.rank == 1:\n    {LATER}\n    sys.exit('no weights here')\ngroup.receive((3,), mx.float32, 1)"
    )
    assert failure(command) == (
        "Rank 1 of 2 ended with exit status 1: it had made no call. The other ranks have been stopped:\n"
        "    rank 0 was in receive from rank 1 (3, float32) at work.py:N\n"
        "The last lines of rank 1:\n"
        "    no weights here"
    )


def test_a_rank_that_is_killed(program):
    command = program(
        "group.send(x, group.right)\n"
        f"if group.rank == 1:\n    {LATER}\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "group.receive((5,), mx.float32, group.right)"
    )
    assert failure(command, 3).splitlines()[0] == (
        "Rank 1 of 3 was ended by SIGKILL: it was computing, after send to rank 2 (3, float32) at work.py:N. "
        "The other ranks have been stopped:"
    )


def test_ranks_that_wait_for_a_message(program):
    command = program("if group.rank == 0:\n    group.receive((3,), mx.float32, 1)\ngroup.receive((3,), mx.float32, 0)")
    assert failure(command, timeout=3) == (
        "The ranks hang: none has made a call for 3 s. They have been stopped:\n"
        "    rank 0 was in receive from rank 1 (3, float32) at work.py:N\n"
        "    rank 1 was in receive from rank 0 (3, float32) at work.py:N"
    )


def test_ranks_that_all_send_more_than_fits_into_buffers(program):
    command = program("group.send(mx.ones(16 << 20), group.right)\ngroup.receive((16 << 20,), mx.float32, group.left)")
    assert failure(command, timeout=3) == (
        "The ranks hang: none has made a call for 3 s. They have been stopped:\n"
        "    rank 0 was in send to rank 1 (16777216, float32) at work.py:N\n"
        "    rank 1 was in send to rank 0 (16777216, float32) at work.py:N"
    )


def test_a_collective_that_not_all_ranks_call(program):
    """It is lazy, so rank 0 waits where it evaluates the sum; rank 1 computes without end."""
    command = program("if group.rank == 0:\n    mx.eval(group.all_sum(x))\nwhile True:\n    time.sleep(0.1)")
    assert failure(command, timeout=3) == (
        "The ranks hang: none has made a call for 3 s. They have been stopped:\n"
        "    rank 0 was computing at work.py:N, after all_sum (3, float32) at work.py:N\n"
        "    rank 1 had made no call; it was at work.py:N"
    )


def test_ranks_that_only_compute_do_not_hang(program):
    assert launch(program("time.sleep(1)\nprint('done')"), 2, timeout=0.3, environment=OURS) == ["done\n"] * 2


def test_all_processes_end_with_the_ranks(program):
    command = program("import subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)\ntime.sleep(60)")
    with Ranks(command, 2, environment=OURS, keep=True) as ranks:
        end = time.monotonic() + 20
        while not all(ranks.outputs) and time.monotonic() < end:
            time.sleep(0.02)
    pids = [int(text) for text in ranks.outputs]
    assert all(gone(pid) for pid in (*pids, *(process.pid for process in ranks.processes)))


def dist(*words: object, **settings: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tiny_llm_course", "dist", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **settings})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_dist_interrupted_ends_all_ranks(program, number):
    command = program(
        "print(os.getpid(), flush=True)\nif group.rank:\n    time.sleep(60)\ngroup.receive((3,), mx.float32, 1)"
    )
    process = dist("-n", 2, "--solution", "--", *command)
    assert process.stdout
    pids = [int(process.stdout.readline().rpartition(" ")[2]) for _ in range(2)]
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert all(gone(pid) for pid in pids)
    assert "Traceback" not in errors
    if number == signal.SIGINT:
        assert (process.returncode, errors.strip()) == (130, "interrupted")


def test_dist_shows_which_rank_prints(program):
    process = dist("-n", 3, "--solution", "--", *program("print('hello')\nprint('there', file=sys.stderr)"))
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert sorted(out.splitlines()) == ["hello", "rank 1: hello", "rank 2: hello"]
    assert sorted(err.splitlines()) == ["rank 1: there", "rank 2: there", "there"]


def test_dist_imports_the_learners_package_by_default():
    code = "import tiny_llm; print(tiny_llm.__file__)"
    for words, folder in (((), "src"), (("--solution",), "solutions")):
        process = dist("-n", 1, *words, "--", "python", "-c", code)
        assert process.communicate(timeout=30)[0].split(os.sep)[-3] == folder


def test_dist_runs_a_command_of_the_course():
    out, _ = dist("-n", 2, "--", "hint", "--help").communicate(timeout=30)
    assert out.count("Usage: pdm run hint") == 2
    assert "\nrank 1: Usage" in f"\n{out}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-n", 0, "--", "true"), "Invalid value for '-n': 0 is not in the range 1<=x<=64."),
        (("-n", "two", "--", "true"), "Invalid value for '-n': 'two' is not a valid integer range."),
        (("--", "true"), "Missing option '-n'."),
        (("-n", 2), "Missing argument 'COMMAND...'."),
        (("-n", 2, "--", "nosuch"), "There is neither a command of the course nor a program with the name 'nosuch'."),
        (("-n", 2, "--", __file__), f"{__file__} is a file that cannot be executed. Did you mean:"),
        (("-n", 2, "--backend", "tcp", "--", "true"), "Invalid value for '--backend': 'tcp' is not one of"),
        (("-n", 2, "--backend", "mpi", "--", "true"), "There is no mpirun on the PATH."),
        (("-n", 2, "--timeout", -1, "--", "true"), "Invalid value for '--timeout': -1.0 is not in the range x>=0."),
    ],
)
def test_dist_refuses(typed, monkeypatch, words, message):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("shutil.which", lambda name: "/bin/true" if name == "true" else None)
    code, out, err = typed("dist", *words)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert len(err.splitlines()) <= 2


def test_cores_are_shared():
    """Equal shares, or a single core each if there are more ranks than cores."""
    cores = len(psutil.Process().cpu_affinity()) if sys.platform == "linux" else os.cpu_count() or 1
    shares = [cores_of(rank, cores) for rank in range(cores)]
    assert all(len(share) == 1 for share in shares)
    assert len({core for share in shares for core in share}) == cores
    assert len(cores_of(3, 4 * cores)) == 1


def test_doctor_says_which_backends_there_are(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert backends_in_words(["ring", "mpi"]) == "mx.distributed has ring and mpi"
    assert "sudo apt install openmpi-bin" in backends_in_words(["ring"])
    monkeypatch.setattr(sys, "platform", "darwin")
    assert backends_in_words(["ring", "jaccl"]) == "mx.distributed has ring and jaccl"


def test_free_ports_differ():
    assert len(set(free_ports(20))) == 20
