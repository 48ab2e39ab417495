"""Known programs of task 7.4.4, a command with limits."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc

import mlx.core as mx
from tests.week7.leftovers import HOLD, background_process
from tests.week7.probing import told
from tiny_llm_solution.workspace.commands import LAUNCHER, LOOK_EVERY
from tiny_llm_solution.workspace.limits import ClippedOutput, Finished, Limits, memory_of_group

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.4.4")
SOON = Limits(wall_seconds=0.9)


def run(program, script, folder=".", limits=SOON, **more):
    opened = os.open(folder, os.O_RDONLY)
    try:
        return told(lambda: tuple(vars(program(["sh", "-c", script], opened, limits, **more)).values()))
    finally:
        os.close(opened)


def left(program, script):
    """Return what a command with a background process does, and whether that is still alive."""
    with background_process() as (folder, alive):
        return run(program, script, folder), mx.array(alive())


def with_something_to_read(program):
    here, (reading, writing) = os.dup(0), os.pipe()
    os.write(writing, b"ours\n")
    os.close(writing)
    os.dup2(reading, 0)
    try:
        return run(program, "cat")
    finally:
        os.dup2(here, 0)
        os.close(here)
        os.close(reading)


@contextlib.contextmanager
def environment(**variables):
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def secrets(program):
    with environment(TINY_SECRET="secret", TINY_KEPT="kept", HOME="/our/home"):
        return (
            run(program, "echo $TINY_SECRET $TINY_KEPT", keep=("TINY_KEPT",)),
            run(program, 'test "$HOME" = /our/home && echo ours'),
        )


def endless(program):
    """Return which limit ends a command that prints without a pause, and whether it needs much memory."""
    opened = os.open(".", os.O_RDONLY)
    tracemalloc.start()
    try:
        stopped = told(lambda: program(["sh", "-c", "yes & yes & yes & sleep 3"], opened, SOON).stopped)
        return stopped, mx.array(tracemalloc.get_traced_memory()[1] > 2_000_000)
    finally:
        tracemalloc.stop()
        os.close(opened)


def much_output(program):
    """Return how a command ends that prints more than a pipe holds."""
    opened = os.open(".", os.O_RDONLY)
    try:
        ended = program([sys.executable, "-I", "-S", "-c", "print('a' * 400_000)"], opened, Limits(2, output_bytes=100))
        return told(lambda: (ended.code, ended.stopped))
    finally:
        os.close(opened)


def interrupted(program):
    """Return whether a process of the command runs after KeyboardInterrupt."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with background_process() as (folder, alive):
            timer.start()
            with contextlib.suppress(KeyboardInterrupt):
                run(program, f"{HOLD}; sleep 3", folder, Limits())
            return mx.array(alive())
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)


ONE = f"{sys.executable} -I -S -c 'x = b\"1\" * (60 * 2**20); import time; time.sleep(3)'"
known.probe_table(
    code=lambda program: run(program, "echo out; exit 3"),
    both=lambda program: run(program, "echo out; echo err >&2; exit 1"),
    signal=lambda program: run(program, "kill -9 $$"),
    wall=lambda program: run(program, "echo on; sleep 3"),
    stdin=with_something_to_read,
    secrets=secrets,
    ends=lambda program: left(program, HOLD),
    stopped=lambda program: left(program, f"{HOLD}; sleep 3"),
    endless=endless,
    much_output=much_output,
    interrupted=interrupted,
    several=lambda program: run(program, f"{ONE} & {ONE}", limits=Limits(wall_seconds=1.5, memory_mib=90)),
    clipped=lambda program: run(program, "printf %s 0123456789", limits=Limits(output_bytes=4)),
)
known.not_timed("a process takes longer to start than everything else")

known.change(
    "only-the-process",
    ("os.killpg(process.pid, signal.SIGKILL)", "process.kill()"),
    fact="only the command's own process is killed, and not its group",
    question="The tests have started a server. Who ends it when the time is up?",
)
known.change(
    "only-when-stopped",
    ("os.killpg(process.pid, signal.SIGKILL)", "os.killpg(process.pid, signal.SIGKILL) if stopped else None"),
    fact="what a command leaves in the background when it ends by itself runs on",
    question="The command has ended. Has everything that it started?",
)
known.change(
    "our-environment",
    ("env=kept | {", "env=dict(os.environ) | kept | {"),
    fact="the command gets our whole environment, with its keys and tokens",
    question="Which of your variables should a test written by a model be able to print?",
)
known.change(
    "our-home",
    ('{"HOME": home,', '{"HOME": os.environ.get("HOME", home),'),
    fact="HOME is the user's home folder",
    question="Where do programs look for their passwords?",
)
known.change(
    "errors-dropped",
    ("stderr=subprocess.STDOUT", "stderr=subprocess.DEVNULL"),
    fact="what the command writes to standard error is lost",
    question="Where does Python print its traceback?",
)
known.change(
    "our-input",
    ("stdin=subprocess.DEVNULL", "stdin=None"),
    fact="the command reads from our standard input",
    question="The command asks for a password. Who is asked?",
)
known.change(
    "until-the-pipe-is-closed",
    (
        "while process.poll() is None and not stopped:",
        "while (process.poll() is None or selector.get_map()) and not stopped:",
    ),
    fact="the pipe is read until every process that has it open has closed it",
    question="A process in the background has the pipe, too. When is it closed?",
)
known.change(
    "memory-not-watched",
    ("if memory_of_group(process.pid) > limits.memory_mib:", "if False:"),
    fact="the memory of all processes together is not limited",
    question="The limit is 1 GiB, and the command starts eight processes of 900 MiB. Which one is over the limit?",
)


known.change(
    "reading-ends-at-the-limit",
    ("if selector.select(0.02):", "if output.total <= limits.output_bytes and selector.select(0.02):"),
    fact="the pipe is not read any more once the output is over its limit",
    question="A pipe holds 64 KiB. What does the command do when it is full?",
)
known.change(
    "not-when-interrupted",
    ("finally:", "except BaseException:\n    raise\nelse:"),
    fact="the processes run on if the function is interrupted",
    question="The user presses Ctrl-C. Which lines of your function still run?",
)


@known.wrong(
    "communicate",
    fact="all output is kept in memory until the end, and the pipe is read until every process has closed it",
    question="What does `yes` print in a minute? Where is it kept?",
)
def communicate(command, folder, limits=Limits(), keep=()):  # noqa: B008
    if not command or any("\0" in word for word in command):
        raise ValueError("no command")
    output, stopped, text = ClippedOutput(limits.output_bytes), "", b""
    with tempfile.TemporaryDirectory() as home:
        process = started(command, folder, limits, keep, home)
        try:
            text = process.communicate(timeout=limits.wall_seconds)[0]
        except subprocess.TimeoutExpired:
            stopped = f"{limits.wall_seconds:g} seconds"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0]
        output.add(text)
    return Finished(process.returncode, output.text(), stopped)


def started(command, folder, limits, keep, home):
    """Start the launcher with the environment of the docstring."""
    more = {name: os.environ[name] for name in ["PATH", *keep] if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", LAUNCHER, *map(str, (folder, limits.cpu_seconds, limits.memory_mib)), *command],
        env={**more, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TERM": "dumb"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        pass_fds=[folder], start_new_session=True,
    )  # fmt: skip


@known.accepted("a file for the end of the process")
def in_steps(command, folder, limits=Limits(), keep=()):  # noqa: B008
    """Reads whatever is there, then sleeps a little."""
    if not command or any("\0" in word for word in command):
        raise ValueError("no command")
    output, stopped = ClippedOutput(limits.output_bytes), ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = started(command, folder, limits, keep, home)
        begun = looked = time.monotonic()
        os.set_blocking(process.stdout.fileno(), False)
        try:
            while process.poll() is None and not stopped:
                piece = _read(process.stdout.fileno())
                output.add(piece)
                if not piece:
                    time.sleep(0.01)
                if time.monotonic() - begun > limits.wall_seconds:
                    stopped = f"{limits.wall_seconds:g} seconds"
                if time.monotonic() - looked > LOOK_EVERY:
                    looked = time.monotonic()
                    if memory_of_group(process.pid) > limits.memory_mib:
                        stopped = f"{limits.memory_mib} MiB of memory"
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with process.stdout:
            for _ in range(9):
                output.add(_read(process.stdout.fileno()))
    if process.returncode == -signal.SIGXCPU:
        stopped = f"{limits.cpu_seconds} seconds of CPU time"
    return Finished(process.returncode, output.text(), stopped)


def _read(pipe):
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return os.read(pipe, 30_000) if selector.select(0) else b""
