"""`pdm run dev new-day`: what it writes is a day, and `dev check` says what that day lacks and what makes it."""

import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from tests.course.checkouts import fixture

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev import refresh
from tiny_llm_course.dev.transcripts import run
from tiny_llm_course.paths import COURSE

pytestmark = pytest.mark.maintainers
WRITTEN = [
    "src/tiny_llm_course/course/tasks/week2.toml",
    "solutions/tiny_llm/kernels/__init__.py",
    "solutions/tiny_llm/kernels/sums.py",
    "tests/week2/test_day1.py",
    "tests/week2/variants_2_1_1.py",
    "book/src/week2/day1.md",
    "book/quizzes/week2/day1.py",
    "benches/week2/day1.py",
    "book/src/week2/overview.md",
    "book/src/SUMMARY.md",
]
EMPTY = ["The idea in one picture", "Symbols and shapes", "Predict"]
EMPTY += ["Invariants", "Checkpoint", "What real engines do", "Reading"]


@pytest.fixture(scope="module")
def checkout():
    """A checkout with two new days, the second without a title."""
    with fixture() as checkout:
        done = run("dev new-day 2.1 --title Sums --week-title Kernels --target kernels.sums:twice", checkout)
        assert done.returncode == 0, done.stdout
        generated = [f"book/src/generated/{name}.md: changed" for name in ("2.1", "course")]
        made = "6 files regenerated, 2 changed; all other inputs are unchanged."
        last = ["What is still missing: pdm run dev check 2.1"]
        last.append("When it is written, generate and record what it shows: pdm run dev refresh 2.1")
        assert done.stdout.splitlines() == [*WRITTEN, *generated, made, *last]
        done = run("dev new-day 2.2", checkout)
        assert done.returncode == 0, done.stdout
        assert "book/src/week2/overview.md" not in done.stdout
        yield checkout


def test_the_stub_fails_and_the_solution_passes(checkout):
    stub, solution = run("test 2.1", checkout), run("test 2.1 --solution -- -k formula", checkout)
    assert (stub.returncode, solution.returncode) == (1, 0), solution.stdout
    assert "○ 2.1.1 Twice: not started" in stub.stdout
    assert "✓ 2.1.1 Twice: passed" in solution.stdout


def test_dev_check_says_what_is_missing_where_and_what_makes_it(checkout):
    done = run("dev check 2.1 2.2", checkout)
    assert done.returncode == 1
    *lines, summary, _ = done.stdout.splitlines()
    sections = ", ".join(map(repr, EMPTY))
    untitled = "(src/tiny_llm_course/course/tasks/week2.toml)"
    wanted = []
    for day, title in ((1, []), (2, [f"2.2: the day has no title {untitled}"])):
        wanted += [
            *title,
            f"2.{day}: no recordings tests/week2/torch_day{day}.npz (pdm run dev record --week 2 --day {day})",
            f"2.{day}: nothing below {sections} (book/src/week2/day{day}.md)",
            f"2.{day}: its quiz has 1 question, 2 to 4 are needed (book/quizzes/week2/day{day}.py)",
            f"2.{day}: no record of its measurement benches/week2/day{day}.json (pdm run dev bench 2.{day})",
        ]
    for task in ("2.1.1", "2.2.1"):
        programs = f"(tests/week2/variants_{task.replace('.', '_')}.py)"
        wanted += [
            f"{task}: test_task_1_pytorch fails on the solution (pdm run test {task} --solution)",
            f"{task}: test_task_1_pytorch fails on the accepted program product {programs}",
            f"{task}: 1 wrong program, at least 4 are needed {programs}",
        ]
    assert lines == wanted
    assert "44 fail on the stubs, 42 pass on the solution; 2 wrong programs: 2 caught, 2 named" in summary


def test_a_refresh_leaves_out_what_cannot_run_and_stops_at_the_first_failure(monkeypatch, capsys):
    day = load_course().day(1, 1)
    words = [(step.partition(" ")[0], reason) for step, reason in refresh.steps(day, measure=False)]
    torch = "" if find_spec("torch") else "PyTorch is not installed."
    measured = "Its record is there; --bench measures again."
    assert words == [("stubs", ""), ("record", torch), ("bench", measured), ("transcripts", ""), ("book", "")]
    assert ("bench 1.1", "") in refresh.steps(day, measure=True)
    codes = iter([0, 3])
    monkeypatch.setattr(refresh, "steps", lambda *_: iter([("stubs", ""), ("bench 1.1", ""), ("book", "")]))
    monkeypatch.setattr(refresh.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=next(codes)))
    assert refresh.main(day, measure=False) == 3
    stopped = "Stopped: `pdm run dev bench 1.1` failed with exit code 3."
    assert capsys.readouterr().out.splitlines() == ["pdm run dev stubs", "pdm run dev bench 1.1", stopped]


def test_of_a_registered_day_it_writes_what_is_not_there(checkout):
    chapter = checkout / "book" / "src" / "week2" / "day1.md"
    before = chapter.read_bytes()
    chapter.unlink()
    assert "2.1: no chapter book/src/week2/day1.md (pdm run dev new-day 2.1)\n" in run("dev check 2.1", checkout).stdout
    done = run("dev new-day 2.1", checkout)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "book/src/week2/day1.md"
    assert chapter.read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("2", "'2' is not a day. A day is named like 2.1."),
        ("2.01", "'2.01' is not a day. A day is named like 2.1."),
        ("2.4", "Day 2.4 cannot come next; 1.3 or 2.3 or the first day of a week can."),
        ("4.2", "Day 4.2 cannot come next; 1.3 or 2.3 or the first day of a week can."),
        ("1.1", "Day 1.1 has a file of each kind. To see what is missing:"),
        (
            "2.1 --title Other",
            "Day 2.1 is registered; its titles and targets are in src/tiny_llm_course/course/tasks/week2.toml",
        ),
        ("2.3 --week-title Other", "Week 2 has its title: src/tiny_llm_course/course/tasks/week2.toml"),
        ("2.3 --target basics:mean", "task 2.3.1: 'target' is basics:mean, the target of 1.1.1 already."),
        ("2.3 --target basics", "task 2.3.1: 'target' is 'basics', which is not module:name."),
        ("2.3 --target basics:A.b", "The toy task is a function in Python, and basics:A.b is none."),
        ("2.3 --target kernels/a.cpp:a", "The toy task is a function in Python, and kernels/a.cpp:a is none."),
        (
            "2.3 --target basics:maximum",
            "solutions/tiny_llm/basics.py is there, though day 2.3 is not registered.",
        ),
    ],
)
def test_what_it_refuses_is_one_line_and_nothing_is_written(checkout, typed, line):
    before = {file: file.stat().st_mtime_ns for file in checkout.rglob("*") if "__pycache__" not in file.parts}
    done = run(f"dev new-day {typed}", checkout)
    assert done.returncode == 2
    assert done.stdout.splitlines()[0] == line
    assert all(command.startswith("    pdm run ") for command in done.stdout.splitlines()[1:])
    assert before == {file: file.stat().st_mtime_ns for file in before}
    assert len(before) == sum("__pycache__" not in file.parts for file in checkout.rglob("*"))


@pytest.mark.skipif(not find_spec("ruff"), reason="not run here: ruff is not installed")
@pytest.mark.parametrize("command", [("check",), ("format", "--check")], ids=" ".join)
def test_it_is_written_as_ruff_wants_it(checkout, command):
    folders = ("solutions", "tests/week2", "book/quizzes/week2", "benches/week2")
    # The fixture has no rules of its own, and a checkout no harness.
    rules = ["--config", str(COURSE.parents[1] / "pyproject.toml")]
    rules += ["--config", "lint.isort.known-first-party = ['tiny_llm', 'tiny_llm_course']"] * (command == ("check",))
    ruff = [sys.executable, "-m", "ruff", *command, *rules, *folders]
    done = subprocess.run(ruff, cwd=checkout, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout


def test_a_box_of_the_engine_gets_a_map_that_leads_to_its_chapter(checkout):
    """Last: it changes the day."""
    registry, chapter = (checkout / name for name in (WRITTEN[0], WRITTEN[5]))
    registry.write_text(registry.read_text().replace("needs =", 'makes = ["sums/twice", "sums"]\nneeds =', 1))
    include = "{{#include ../generated/2.1.md:map}}"
    wanted = f"2.1: it makes a part of the engine, and the chapter has no {include} ({WRITTEN[5]})\n"
    assert wanted in run("dev check 2.1", checkout).stdout
    chapter.write_text(f"{chapter.read_text()}\n{include}\n")
    assert run("dev book", checkout).returncode == 0
    drawn = (checkout / "book" / "src" / "generated" / "2.1.md").read_text(encoding="utf-8")
    assert '<a href="day1.md#task-2-1-1" title="Week 2, day 1: Sums" aria-current="page">twice</a>' in drawn
    assert wanted not in run("dev check 2.1", checkout).stdout
