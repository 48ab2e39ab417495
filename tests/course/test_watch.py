"""Watching, through a real terminal and a pipe: saves, keys, endless loops, and its end."""

import os
import shutil
import signal
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.course.checkouts import FIXTURE, fixture, replace
from tests.course.terminal import CTRL_C, Terminal

from tiny_llm_course.commands.watch.session import LINGER, Session
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.selection import selected
from tiny_llm_course.dev.transcripts import environment
from tiny_llm_course.grading.supervisor import Limits

pytestmark = pytest.mark.maintainers

FOOTER = "grades all again\n"
SOLVED = (FIXTURE / "solutions/tiny_llm/spread.py").read_text(encoding="utf-8")
WRONG = SOLVED.replace("mean(centered * centered, axis)", "mean(mx.abs(centered), axis)", 1)
HANGING = "hanging"  # a file that the endless loop makes when it begins
LOOP = f"open('{HANGING}', 'w').close(); exec('while True: pass')"
ENDLESS = WRONG.replace("    centered = x - mean(x, axis)", f"    {LOOP}\n    centered = x - mean(x, axis)")
DAY = "1.1.1, 1.1.2, 1.1.3"


@pytest.fixture(scope="module")
def checkouts():
    with fixture("1.1.1") as checkout:
        yield checkout


@pytest.fixture
def checkout(checkouts):
    """A checkout in which mean is written and the rest is not."""
    files = {file: file.read_bytes() for file in (checkouts / "src" / "tiny_llm").glob("*.py")}
    yield checkouts
    for file, before in files.items():
        file.write_bytes(before)
    (checkouts / HANGING).unlink(missing_ok=True)


def save(checkout, text, file="spread.py"):
    (checkout / "src" / "tiny_llm" / file).write_text(text, encoding="utf-8")


def save_by_renaming(checkout, text):
    folder = checkout / "src" / "tiny_llm"
    (folder / "spread.py~").write_text(text, encoding="utf-8")
    os.replace(folder / "spread.py~", folder / "spread.py")


@contextmanager
def watching(checkout, *args, tasks=DAY):
    """A terminal in which `watch` has given its first verdicts."""
    with Terminal("watch", *args, checkout=checkout) as terminal:
        terminal.wait_for(f"Graded {tasks} in")
        terminal.wait_for(FOOTER)
        yield terminal


def children(terminal):
    return psutil.Process(terminal.process.pid).children(recursive=True)


def wait_until_it_hangs(checkout):
    """Wait until a check is in the endless loop."""
    end = time.monotonic() + 20
    while not (checkout / HANGING).exists():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_save_grades_what_it_concerns_and_nothing_else(checkout):
    with watching(checkout) as terminal:
        save(checkout, WRONG)
        page = terminal.wait_for(FOOTER)
        assert "Graded 1.1.2 in" in page
        assert "✗ 1.1.2 Variance: " in page
        assert "equals what you get when the distances" in page
        assert "1.1.1 passed" in page
        save(checkout, "# nothing that runs\n" + WRONG)
        save_by_renaming(checkout, SOLVED)
        page = terminal.wait_for(FOOTER)
        assert page.count("Graded") == 1  # the comment had no page of its own
        assert "✓ 1.1.1, 1.1.2 passed" in page
        terminal.type("q")
        assert terminal.end() == 0


def test_the_keys(checkout):
    save(checkout, WRONG)
    with watching(checkout, "--week", "1", "--day", "1") as terminal:
        mode = termios.tcgetattr(terminal.ours)
        terminal.type("h")
        page = terminal.wait_for(FOOTER)
        assert "1.1.2 Variance, hint 1 of 3" in page
        assert "Next hint: h · back: any other key\n" in page
        terminal.type("H")
        assert "hint 2 of 3" in terminal.wait_for(FOOTER)
        terminal.type("l")
        page = terminal.wait_for(FOOTER)
        assert "✓ 1.1.1 Mean: passed, 5 checks" in page
        assert "○ 1.1.3 Line: not started" in page
        terminal.type("n")
        assert "\n○ 1.1.3 Line: not started\n    code" in terminal.wait_for(FOOTER)
        terminal.type("\x1b[A")  # an arrow means nothing
        assert "\n○ 1.1.3 Line: not started\n    code" in terminal.wait_for(FOOTER)
        terminal.type("\n")
        assert f"Graded {DAY} in" in terminal.wait_for(FOOTER)
        terminal.type("n")
        terminal.wait_for(FOOTER)
        terminal.type("n")
        assert "Watching week 1, day 2" in terminal.wait_for(FOOTER)
        terminal.type("q")
        assert terminal.end() == 0
        assert mode[3] & (termios.ICANON | termios.ECHO) == 0
        assert termios.tcgetattr(terminal.ours)[3] & (termios.ICANON | termios.ECHO)


def test_what_was_just_broken_comes_before_what_was_chosen(checkout):
    before = (checkout / "src" / "tiny_llm" / "basics.py").read_text(encoding="utf-8")
    broken = before.replace("mx.sum(x,", "mx.sum(2 * x,")
    save(checkout, WRONG)
    with watching(checkout) as terminal:
        assert "✗ 1.1.2 Variance: " in terminal.screen
        terminal.type("n")
        assert "\n○ 1.1.3 Line: not started\n    code" in terminal.wait_for(FOOTER)
        save(checkout, broken, "basics.py")
        page = terminal.wait_for(FOOTER)
        assert "✗ 1.1.1 Mean: " in page
        assert "1.1.1 first: you just changed it and it fails. Then 1.1.3." in page
        save(checkout, before, "basics.py")
        assert "\n1.1.1 passed. Next: 1.1.3, in a second; n goes now, p stays.\n" in terminal.wait_for(FOOTER)
        page = terminal.wait_for(FOOTER)
        assert "\n○ 1.1.3 Line: not started\n    code" in page
        assert "first: you" not in page
        save(checkout, broken, "basics.py")
        assert "1.1.1 first: you" in terminal.wait_for(FOOTER)
        terminal.type("n")
        assert "\n○ 1.1.3 Line: not started\n    code" in terminal.wait_for(FOOTER)
        terminal.type("q")
        assert terminal.end() == 0


PASSES = "\n1.1.2 passed. Next: 1.1.3, in a second; n goes now, p stays.\n"
STAYS = "\n1.1.2 passed. Next: 1.1.3; n goes there.\n"
LATER = "\n○ 1.1.3 Line: not started\n    code"


def test_a_task_that_passes_is_seen_for_a_second_and_then_the_next_one(checkout):
    shutil.rmtree(checkout / ".tiny-llm", ignore_errors=True)
    with watching(checkout, "1.1") as terminal:
        save(checkout, WRONG)
        assert "✗ 1.1.2 Variance: " in terminal.wait_for(FOOTER)
        save(checkout, SOLVED)
        page = terminal.wait_for(FOOTER)
        shown = time.monotonic()
        assert '✓ 1.1.2 Variance: passed, 5 checks\n    2 attempts: "not squared" first · pdm run history' in page
        assert PASSES in page
        assert LATER in terminal.wait_for(FOOTER)
        assert time.monotonic() - shown >= LINGER - 0.2
        terminal.type("p")
        assert LATER in terminal.wait_for(FOOTER), "there is none before"
        terminal.type("q")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("key", "page"), [("p", STAYS), ("x", STAYS), ("l", "✓ 1.1.2 Variance: passed"), ("h", "1.1.3 Line, hint")]
)
def test_whoever_wants_to_stay_stays(checkout, key, page):
    with watching(checkout, "1.1") as terminal:
        save(checkout, WRONG)
        terminal.wait_for(FOOTER)
        save(checkout, SOLVED)
        assert PASSES in terminal.wait_for(FOOTER)
        terminal.type(key)
        assert page in terminal.wait_for(FOOTER)
        time.sleep(LINGER + 0.5)
        terminal.type("x")  # what is shown next is no earlier page
        assert STAYS in terminal.wait_for(FOOTER)
        terminal.type("n")
        assert LATER in terminal.wait_for(FOOTER)
        terminal.type("q")
        assert terminal.end() == 0


def test_n_goes_at_once_and_p_back(checkout):
    save(checkout, WRONG)
    with watching(checkout, "1.1") as terminal:
        save(checkout, SOLVED)
        assert PASSES in terminal.wait_for(FOOTER)
        terminal.type("n")
        pressed = time.monotonic()
        assert LATER in terminal.wait_for(FOOTER)
        assert time.monotonic() - pressed < LINGER / 2
        save(checkout, WRONG)
        assert "✗ 1.1.2 Variance: " in terminal.wait_for(FOOTER)
        terminal.type("n")
        assert LATER in terminal.wait_for(FOOTER)
        terminal.type("p")
        assert "✗ 1.1.2 Variance: " in terminal.wait_for(FOOTER)
        terminal.type("p")
        assert "✗ 1.1.2 Variance: " in terminal.wait_for(FOOTER), "there is none before it"
        terminal.type("q")
        assert terminal.end() == 0


def test_after_the_last_task_it_stays_and_n_goes_to_the_next_day(checkout):
    save(checkout, WRONG)
    with watching(checkout, "1.1.2", tasks="1.1.2") as terminal:
        save(checkout, SOLVED)
        page = terminal.wait_for(FOOTER)
        assert "✓ 1.1.2 Variance: passed" in page
        assert "Everything has passed.\nNext: n, or later: pdm run watch 1.1\n" in page
        time.sleep(LINGER + 0.5)
        terminal.type("n")
        page = terminal.wait_for(FOOTER)
        assert page.count("Watching") == 1  # nothing came before the key
        assert "Watching week 1, day 1" in page
        terminal.type("q")
        assert terminal.end() == 0


def test_a_week_is_watched_by_its_name(capsys):
    week = load_course().week(1)
    Session(list(selected((), 1, None, "watch")), Limits(), poll=True)._head()
    assert capsys.readouterr().out.startswith(f"Watching week 1: {week.title}  (src/tiny_llm)\n")


def test_half_a_file_and_a_deleted_file_are_waited_for(checkout):
    with watching(checkout, "1.1.2", tasks="1.1.2") as terminal:
        save(checkout, WRONG[: WRONG.index("centered = x")] + "centered = (")
        assert "✗ src/tiny_llm/spread.py" in (page := terminal.wait_for(FOOTER))
        assert "is not Python: '(' was never closed" in page
        (checkout / "src" / "tiny_llm" / "spread.py").unlink()
        assert "✗ src/tiny_llm/spread.py is not there" in (page := terminal.wait_for(FOOTER))
        assert "pdm run reset 1.1.2" in page
        assert "Fix it and save; grading then resumes." in page
        save(checkout, SOLVED)
        assert "Everything has passed." in terminal.wait_for(FOOTER)
        terminal.type("q")
        assert terminal.end() == 0


def test_an_endless_loop_blocks_no_key_and_gives_way_to_the_next_save(checkout):
    with watching(checkout, "1.1.2", tasks="1.1.2") as terminal:
        save(checkout, ENDLESS)
        wait_until_it_hangs(checkout)
        hanging = children(terminal)
        save(checkout, SOLVED)
        assert "Everything has passed." in terminal.wait_for(FOOTER)
        assert not psutil.wait_procs(hanging, timeout=5)[1]
        terminal.type("q")
        assert terminal.end() == 0


def test_a_verdict_does_not_wait_for_those_of_other_tasks(checkout):
    """1.1.2 comes first and fails; 1.1.3 hangs. On a screen, which each page takes over, the first is told at once."""
    save(checkout, WRONG)
    replace(checkout / "src/tiny_llm/basics.py", 'raise NotImplementedError("1.1.3 Line")', LOOP)
    with Terminal("watch", "1.1.2", "1.1.3", checkout=checkout, kind="xterm") as terminal:
        terminal.wait_for("Grading 1.1.2, 1.1.3 ...")
        terminal.wait_for("✗ 1.1.2 Variance: ")
        terminal.wait_for("equals what you get when the distances")
        assert "Graded" not in terminal.screen
        terminal.type("q")
        assert terminal.end() == 0


def test_an_endless_loop_ends_by_the_limit(checkout):
    save(checkout, ENDLESS)
    with watching(checkout, "1.1.2", "--time-limit", "0.5", tasks="1.1.2") as terminal:
        assert "still running after 0.5 s, the limit of a task" in terminal.screen
        assert "exec('while True: pass')" in terminal.screen


@pytest.mark.parametrize("code", [SOLVED, ENDLESS], ids=["while it waits", "while a check hangs"])
def test_ctrl_c_leaves_nothing_behind(checkout, code):
    with watching(checkout, "1.1.2", tasks="1.1.2") as terminal:
        if code == ENDLESS:
            save(checkout, code)
            wait_until_it_hangs(checkout)
        started = children(terminal)
        terminal.type(CTRL_C)
        pressed = time.monotonic()
        assert terminal.end() == 130
        assert time.monotonic() - pressed < 2  # and 0.2 on a machine with nothing else to do
        assert "Traceback" not in terminal.screen
        assert termios.tcgetattr(terminal.ours)[3] & (termios.ICANON | termios.ECHO)
        assert not psutil.wait_procs(started, timeout=2)[1]


def piped(checkout, *args) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tiny_llm_course", "watch", *args],
        cwd=checkout,
        env=environment(checkout),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def lines_until(process, text):
    """The lines up to the one that holds the text."""
    assert process.stdout
    lines = []
    while text not in (lines[-1] if lines else ""):
        lines.append(process.stdout.readline())
        assert lines[-1], f"ended before {text!r}: {lines}"
    return lines


@pytest.mark.parametrize("options", [[], ["--poll"]], ids=["events", "polling"])
def test_without_a_terminal_there_are_verdicts_and_no_keys(checkout, options):
    process = piped(checkout, "1.1.2", *options)
    lines_until(process, "not started\n")
    save(checkout, WRONG)
    page = lines_until(process, "✗ 1.1.2 Variance: ")
    assert not any("hint n next" in line or "\x1b" in line for line in page)
    save(checkout, SOLVED)
    lines_until(process, "Everything has passed.")
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=20)
    assert (process.returncode, rest.split()[-1]) == (130, "interrupted")
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    "watchfiles",
    [
        "def watch(*args, stop_event, **options):\n    stop_event.wait()\n    yield from ()\n",
        "raise OSError('no watches')\n",
    ],
    ids=["silent", "broken"],
)
def test_where_the_system_reports_no_save_it_looks_by_itself(checkout, watchfiles):
    """A network drive says nothing of saves; a system out of watches refuses. Nobody has asked for --poll."""
    stand_in = checkout / "src" / "watchfiles.py"
    stand_in.write_text(watchfiles, encoding="utf-8")
    try:
        with watching(checkout, "1.1.2", tasks="1.1.2") as terminal:
            save(checkout, WRONG)
            assert "✗ 1.1.2 Variance: " in terminal.wait_for(FOOTER)
            save_by_renaming(checkout, SOLVED)
            assert "Everything has passed." in terminal.wait_for(FOOTER)
            terminal.type("q")
            assert terminal.end() == 0
    finally:
        stand_in.unlink()


def test_a_reader_that_has_gone_ends_it(checkout):
    process = piped(checkout, "1.1.2")
    lines_until(process, "not started\n")
    process.stdout.close()
    save(checkout, WRONG)
    assert process.wait(20) == 141


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["9.1"], "There is no week 9; there is week 1."),
        (["--day", "1"], "--day 1 needs a week:\n    pdm run watch --week 1 --day 1"),
        (["1.1", "--week", "1"], "Name a task or a day"),
    ],
)
def test_wrong_use_is_one_line(checkout: Path, typed, line):
    process = piped(checkout, *typed)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 2
    assert out.startswith(line)
    assert out.count("\n") == 1 + line.count("\n")
