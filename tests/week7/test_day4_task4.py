"""Task 7.4.4, a command with limits: small programs of `sh` and Python, and what is left of them."""

import os
import signal
import sys
import threading
import time
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.week7.abuse import COMMANDS
from tests.week7.leftovers import HOLD, background_process
from tests.week7.scenes import SECRET, new_scene, next_descriptors

from tiny_llm.workspace import commands
from tiny_llm.workspace.limits import ClippedOutput, Limits
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.sizes import sizes

SOON = Limits(wall_seconds=0.9)
PYTHON = (sys.executable, "-I", "-S", "-c")


@contextmanager
def folder_of(path):
    folder = os.open(path, os.O_RDONLY)
    try:
        yield folder
    finally:
        os.close(folder)


def run(command, path=".", case="", **more):
    """Run a command in a folder, and check that no descriptor stays open."""
    case = case or f"command {' '.join(command)!r}"
    with folder_of(path) as folder:
        free = next_descriptors()
        with noted(case):
            found = commands.run_limited(command, folder, **more)
        if next_descriptors() > free:  # smaller numbers are free if what an interrupted run left has been closed
            fail(Kind.VALUES, "a descriptor is still open", case)
    return found


def check_run(command, code=0, output="", stopped="", case="", **more):
    case = case or f"command {' '.join(command)!r}"
    found = run(command, case=case, **more)
    got = (found.code, found.output, found.stopped)
    for name, expected, actual in zip(("code", "output", "stopped"), (code, output, stopped), got, strict=True):
        fail_if_different(f"`{name}` is wrong", expected, actual, case)


@pytest.mark.parametrize("code", [0, 1, 3, 127])
def test_task_4_run_exit_code(code):
    check_run(["sh", "-c", f"echo done; exit {code}"], code, "done\n")


def test_task_4_run_a_signal():
    check_run(["sh", "-c", "echo first; kill -9 $$"], -9, "first\n")


def test_task_4_run_both_outputs():
    """Errors and output are one stream, in the order in which they are written."""
    check_run(["sh", "-c", "echo one; echo two >&2; echo three"], 0, "one\ntwo\nthree\n")


@pytest.mark.parametrize("word", ["a b", "$HOME", "*", "; echo no", "`echo no`", "", "'", "\u00e9", "-n x", "a\nb"])
def test_task_4_run_words_are_not_interpreted(word):
    check_run(["printf", "%s|", word, "end"], 0, f"{word}|end|")


def test_task_4_run_what_cannot_be_run():
    found = run(["no-such-program-here", "x"])
    fail_if_different("`code` is wrong", 127, found.code, "a program that does not exist")


@pytest.mark.parametrize("command", [[], ["echo", "a\0b"], ["\0"]], ids=repr)
def test_task_4_run_refuses(command):
    with raises_value_error(f"command {command!r}"):
        run(command, case=f"command {command!r}")


def test_task_4_run_in_the_folder(tmp_path):
    """The folder is entered by its descriptor, wherever it is by then."""
    case = "the folder has been renamed"
    (tmp_path / "old").mkdir()
    (tmp_path / "old/here.txt").write_text("here")
    with folder_of(tmp_path / "old") as folder:
        (tmp_path / "old").rename(tmp_path / "new")
        with noted(case):
            found = commands.run_limited(["cat", "here.txt"], folder)
    fail_if_different("`output` is wrong", "here", found.output, case)


def test_task_4_run_environment(monkeypatch):
    for name, value in {"TINY_SECRET": "no", "TINY_KEPT": "kept", "LC_ALL": "C", "PYTHONPATH": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    case = "the variables of a command, keep=('TINY_KEPT', 'TINY_NONE')"
    found = run(["env"], case=case, keep=("TINY_KEPT", "TINY_NONE"))
    table = dict(line.split("=", 1) for line in found.output.splitlines())
    names = sorted(name for name in table if name not in ("PWD", "SHLVL", "_", "__CF_USER_TEXT_ENCODING"))
    wanted = ["HOME", "LANG", "PATH", "TERM", "TINY_KEPT", "TMPDIR"]
    fail_if_different("the names of the variables are wrong", wanted, names, case)
    fixed = {"LANG": "C.UTF-8", "TERM": "dumb", "TINY_KEPT": "kept", "PATH": os.environ["PATH"]}
    fail_if_different("the variables are wrong", fixed, {name: table[name] for name in fixed}, case)


def test_task_4_run_home():
    case = "HOME and TMPDIR"
    script = 'test "$HOME" = "$TMPDIR" && ls -A "$HOME" && echo x > "$HOME/file" && printf %s "$HOME"'
    found = [run(["sh", "-c", script], case=case) for _ in range(2)]
    fail_if_different("`code` is wrong", [0, 0], [each.code for each in found], case)
    homes = [Path(each.output) for each in found]
    if homes[0] == homes[1] or str(homes[0]) == os.environ.get("HOME"):
        fail(Kind.VALUES, "HOME is not a new, empty folder", case, f"got       {homes}")
    fail_if_different("HOME still exists afterwards", False, homes[0].exists(), case)


def test_task_4_run_nothing_to_read():
    """A program that asks gets the end of the file, whatever we could read ourselves."""
    case = "command 'cat', while our standard input has something to read"
    here, (reading, writing) = os.dup(0), os.pipe()
    os.write(writing, b"ours\n")
    os.close(writing)
    os.dup2(reading, 0)
    try:
        check_run(["cat"], 0, "", case=case, limits=SOON)
    finally:
        os.dup2(here, 0)
        os.close(here)
        os.close(reading)


# Limits


def test_task_4_run_wall_time():
    case = "command 'sleep 20', wall_seconds 0.9"
    start = time.monotonic()
    check_run(["sleep", "20"], -9, "", "0.9 seconds", case, limits=SOON)
    if (took := time.monotonic() - start) > 5:
        fail(Kind.VALUES, f"it took {took:.1f} seconds", case)


def test_task_4_run_wall_time_of_what_ignores_signals():
    case = "a command that ignores SIGTERM and SIGINT, and prints on"
    command = ["sh", "-c", "trap '' TERM INT; echo on; sleep 20"]  # on a busy machine, it prints late
    check_run(command, -9, "on\n", "2 seconds", case, limits=Limits(wall_seconds=2))


def test_task_4_run_wall_time_without_output():
    """It closes its output, and goes on."""
    case = "a command that has closed its output"
    check_run(["sh", "-c", "exec >&- 2>&-; sleep 20"], -9, "", "0.9 seconds", case, limits=SOON)


def test_task_4_run_closes_its_output_and_ends():
    check_run(["sh", "-c", "echo out; exec >&- 2>&-; sleep 0.1; exit 5"], 5, "out\n")


def test_task_4_run_cpu_time():
    case = "an endless loop, cpu_seconds 1"
    found = run([*PYTHON, "while True: pass"], case=case, limits=Limits(wall_seconds=10, cpu_seconds=1))
    fail_if_different("`stopped` is wrong", "1 seconds of CPU time", found.stopped, case)


def test_task_4_run_memory_of_one_process():
    case = "a process that wants 600 MiB, memory_mib 300"
    script = "x = bytearray(600 * 2**20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(5)"
    found = run([*PYTHON, script], case=case, limits=Limits(wall_seconds=4, memory_mib=300))
    if found.code == 0 or found.stopped.endswith("4 seconds"):
        fail(Kind.VALUES, f"it ended with code {found.code}, stopped {found.stopped!r}", case)


def test_task_4_run_memory_of_several():
    """Each has less than the limit, all together have more. Only looking at the group sees it."""
    case = "three processes of 60 MiB each, memory_mib 150"
    one = f"{sys.executable} -I -S -c 'x = b\"1\" * (60 * 2**20); import time; time.sleep(20)'"
    limits = Limits(wall_seconds=5, memory_mib=150)
    found = run(["sh", "-c", f"{one} & {one} & {one}"], case=case, limits=limits)
    fail_if_different("`stopped` is wrong", "150 MiB of memory", found.stopped, case)


@pytest.mark.parametrize("count", [0, 10, 11, 99, 100, 101, 1000, 100_000, 400_000])
def test_task_4_run_output(count):
    """The first and the last bytes are kept."""
    case = f"{count} characters of output, output_bytes 100"
    text = "".join(chr(97 + i % 26) for i in range(count))
    kept = ClippedOutput(100)
    kept.add(text.encode())
    script = "import sys; sys.stdout.write(''.join(chr(97 + i % 26) for i in range(int(sys.argv[1]))))"
    limits = Limits(wall_seconds=8, output_bytes=100)
    check_run([*PYTHON, script, str(count)], 0, kept.text(), case=case, limits=limits)


def test_task_4_run_endless_output():
    """Several processes print without a pause."""
    case = "command sh -c 'yes & yes & yes & sleep 4', wall_seconds 0.9"
    tracemalloc.start()
    try:
        found = run(["sh", "-c", "yes & yes & yes & sleep 4"], case=case, limits=SOON)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    fail_if_different("`stopped` is wrong", "0.9 seconds", found.stopped, case)
    if peak > 2_000_000:
        fail(Kind.VALUES, f"it needs {peak / 1e6:.0f} MB of memory", case)
    if not (found.output.startswith("y\ny\n") and "bytes left out" in found.output):
        fail(Kind.VALUES, "`output` is wrong", case, f"got       {found.output[:40]!r}")


def test_task_4_run_invalid_utf8():
    check_run(["printf", r"a\377b"], 0, "a\ufffdb")


# What is left


def test_task_4_run_a_background_process_holds_the_pipe():
    """It is not waited for."""
    case = "command sh -c 'sleep 20 & echo ok', which ends at once"
    start = time.monotonic()
    check_run(["sh", "-c", "sleep 20 & echo ok"], 0, "ok\n", case=case, limits=Limits(wall_seconds=5))
    if (took := time.monotonic() - start) > 3:
        fail(Kind.VALUES, f"it took {took:.1f} seconds", case)


@pytest.mark.parametrize("kind", ["ends", "is stopped"])
def test_task_4_run_leaves_no_process(kind):
    case = f"a command {kind}, and has a process in the background"
    with background_process() as (folder, alive):
        found = run(["sh", "-c", HOLD + ("" if kind == "ends" else "; sleep 3")], folder, case, limits=SOON)
        fail_if_different("`stopped` is wrong", "" if kind == "ends" else "0.9 seconds", found.stopped, case)
        if alive():
            fail(Kind.VALUES, "a process of the command still runs afterwards", case)


def test_task_4_run_interrupted():
    """Ctrl-C while the command runs: it is killed."""
    case = "KeyboardInterrupt while the command runs"

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with background_process() as (path, alive), folder_of(path) as folder:
            try:
                timer.start()
                commands.run_limited(["sh", "-c", f"{HOLD}; sleep 3"], folder)
            except KeyboardInterrupt:
                pass
            else:
                fail(Kind.NO_ERROR, "the interrupt is lost", case)
            if alive():
                fail(Kind.VALUES, "the command still runs afterwards", case)
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("way", COMMANDS, ids=lambda way: way.name)
def test_task_4_run_abuse(way, monkeypatch):
    """A secret is in our environment, our home folder, an open file and our standard input."""
    case = f"{way.name}: {way.happens}"
    with new_scene() as scene, folder_of(scene.w) as folder, folder_of(scene.outside / "secret.txt") as secret:
        monkeypatch.setenv("HOME", str(scene.outside))
        for name in ("TINY_LLM_TEST_KEY", "PYTHONSTARTUP", "PYTHONPATH"):
            monkeypatch.setenv(name, SECRET)
        os.set_inheritable(secret, True)
        way.make(scene)
        if way.during:
            way.during(scene)
        with noted(case):
            found = commands.run_limited(way.command, folder, Limits(wall_seconds=5))
    if SECRET in found.output:
        fail(Kind.VALUES, "it prints the secret", case, f"got       {found.output[:60]!r}")


def test_task_4_run_sweep():
    """Output of all sizes, and limits that fit it or not."""
    for n in sizes(N=300):
        most = n.turn(16_000, 2 * n.N, 10, n.N + 1)
        kept = ClippedOutput(most)
        kept.add(b"ab" * n.N)
        if n.seed % 3 == 0:
            case = f"{2 * n.N} bytes of output, output_bytes {most}"
            check_run(["printf", "%s", "ab" * n.N], 0, kept.text(), case=case, limits=Limits(output_bytes=most))
