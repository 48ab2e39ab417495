"""What is typed nearly right, or wrong: one line on what is wrong, then what to type; exit code 2, and no traceback."""

import errno
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
from tests.course.checkouts import FIXTURE, fixture

from tiny_llm_course.commands import cli, tools
from tiny_llm_course.course import registry
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.course.selection import selected, spelled
from tiny_llm_course.dev.book import page_metadata
from tiny_llm_course.dev.transcripts import run
from tiny_llm_course.learner import progress
from tiny_llm_course.paths import REGISTRY, ROOT

NO_TASK = "is not a task. A task is named like 1.1.2, a day like 1.1, a week like 1."
ONE_DAY = "1.1.1 Mean, 1.1.2 Variance, 1.1.3 Line."
WRONG = {
    # Tasks, days and weeks that are not there, by every command that takes them.
    "test 1.1.9": "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3.",
    "test 1.8": "There is no day 8 in week 1; there are days 1 and 2.",
    "test 1.8.1": "There is no day 8 in week 1; there are days 1 and 2.",
    "test 9": "There is no week 9; there is week 1.",
    "test --week 9": "There is no week 9; there is week 1.",
    "test --week 1 --day 9": "There is no day 9 in week 1; there are days 1 and 2.",
    "test --week -1": "There is no week -1; there is week 1.",
    "test --week 0 --day 1": "There is no week 0; there is week 1.",
    "watch 1.9": "There is no day 9 in week 1; there are days 1 and 2.",
    "watch --week 2": "There is no week 2; there is week 1.",
    "status 2": "There is no week 2; there is week 1.",
    "borrow 1.1.9": "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3.",
    "return 1.9": "There is no day 9 in week 1; there are days 1 and 2.",
    "reset 1.1.1 1.1.9": "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3.",
    "export --format json 1.9": "There is no day 9 in week 1; there are days 1 and 2.",
    "hint 1.1.9": "There is no task 1.1.9. Day 1 of week 1 has 1.1.1, 1.1.2, 1.1.3.",
    "compare 3.1.1": "There is no week 3; there is week 1.",
    # Names that are none, and what they may have meant.
    "test banana": f"'banana' {NO_TASK}",
    "test ''": f"'' {NO_TASK}",
    "test week1": f"'week1' {NO_TASK} Did you mean 1?",
    "test day 1": f"'day 1' {NO_TASK} Did you mean 1.1?",
    "watch week 1 day 2": f"'week 1 day 2' {NO_TASK} Did you mean 1.2?",
    "status day2": f"'day2' {NO_TASK} Did you mean 1.2?",
    "borrow w1d2": f"'w1d2' {NO_TASK} Did you mean 1.2?",
    "test 1,1": f"'1,1' {NO_TASK} Did you mean 1.1?",
    "test 1.1.": f"'1.1.' {NO_TASK} Did you mean 1.1?",
    "test \uff11.\uff11": f"'\uff11.\uff11' {NO_TASK} Did you mean 1.1?",
    "test \u0661.\u0661": f"'\u0661.\u0661' {NO_TASK} Did you mean 1.1?",
    "test 1.1.1.1": f"'1.1.1.1' {NO_TASK}",
    "test variance": f"'variance' {NO_TASK} Did you mean 1.1.2?",
    "reset varince": f"'varince' {NO_TASK} Did you mean 1.1.2?",
    "hint 'Standard scores'": f"'Standard scores' {NO_TASK} Did you mean 1.2.1?",
    "test src/tiny_llm/basics.py": f"'src/tiny_llm/basics.py' {NO_TASK} Did you mean 1.1.1, 1.1.3?",
    "test tests/week1/test_day1.py": f"'tests/week1/test_day1.py' {NO_TASK} Did you mean 1.1?",
    "return nothing": f"'nothing' {NO_TASK}",
    "export --format json all": f"'all' {NO_TASK}",
    # A task is wanted.
    "hint": "hint takes a task. You may mean 1.1.1 Mean:\npdm run hint 1.1.1",
    "compare": "compare takes a task. You may mean 1.1.1 Mean:\npdm run compare 1.1.1",
    "hint 1.1": f"1.1 is a day, and hint takes one task of it: {ONE_DAY}\npdm run hint 1.1.1",
    "compare 1.1": f"1.1 is a day, and compare takes one task of it: {ONE_DAY}\npdm run compare 1.1.1",
    "hint 1": "1 is a week, and hint takes one task:\npdm run hint 1.1.1",
    "compare 1.1.1 1.1.2": "compare takes one task at a time:\npdm run compare 1.1.1",
    "reset": "Name a task or a day to reset:\npdm run reset 1.1.1",
    # Options.
    "test 1.1 --week 1": "Name a task or a day either as 1.1.2 or with --week and --day, not both.",
    "status 1.1 --day 1": "Name a task or a day either as 1.1.2 or with --week and --day, not both.",
    "test --day 2": "--day 2 needs a week:\npdm run test --week 1 --day 2",
    "borrow --day 2": "--day 2 needs a week:\npdm run borrow --week 1 --day 2",
    "export --format json --day 2": "--day 2 needs a week:\npdm run export --format json --week 1 --day 2",
    "test --week one": "Invalid value for '--week': 'one' is not a valid integer.\npdm run test --help",
    "test --week": "Option '--week' requires an argument.\npdm run test --help",
    "test --wek 1": "No such option '--wek'. Did you mean '--week'?\npdm run test --help",
    "test -week 1": "No such option '-week'. Did you mean '--week'?",
    "test -k task_1": "No such option '-k'. pytest's options come after a day and --:\npdm run test 1.1 -- -k ...",
    "--week 1 test": "No such option '--week'. Options come after the command:\npdm run help",
    "test --time-limit nan": "Invalid value for '--time-limit': nan is not a finite number.\npdm run test --help",
    "test --oracle jax": "Invalid value for '--oracle': 'jax' is not one of 'recorded', 'torch'.\npdm run test --help",
    "hint 1.1.1 --next": "No such option '--next'.\npdm run hint --help",
    "return 1.1 --all": "Name tasks or days, or use --all, not both.",
    "export 1.1": "Choose a format (junit, json, gradescope):\npdm run export --format junit --out verdicts.xml",
    "generate": "Missing argument 'PROMPT'.\npdm run generate --help",
    "generate Once upon": "Got unexpected extra argument (upon)\npdm run generate --help",
    "generate Once --model /nowhere": "/nowhere is neither a checkpoint folder nor a Hub id.",
    "chat hello": "Got unexpected extra argument (hello)\npdm run chat --help",
    "doctor 1.1": "Got unexpected extra argument (1.1)\npdm run doctor --help",
    # Commands.
    "tset 1.1": "There is no command 'tset'. Did you mean:\npdm run test 1.1",
    "statsu": "There is no command 'statsu'. Did you mean:\npdm run status",
    "hints 1.1.2": "There is no command 'hints'. Did you mean:\npdm run hint 1.1.2",
    "gen 'Once upon'": "There is no command 'gen'. Did you mean:\npdm run generate 'Once upon'",
    "genrate 'Once upon'": "There is no command 'genrate'. Did you mean:\npdm run generate 'Once upon'",
    "1.1.2": "There is no command '1.1.2'. Did you mean:\npdm run test 1.1.2",
    "banana": "There is no command 'banana'. All of them:\npdm run help",
    "help tset": "There is no command 'tset'. Did you mean:\npdm run test --help",
    "dev chekc": "There is no command 'chekc'. Did you mean:\npdm run dev check",
    "dev banana": "There is no command 'banana'. All of them:\npdm run dev --help",
}


@pytest.fixture(autouse=True)
def _fixture_course(monkeypatch):
    """The tasks of the fixture course, in this process."""
    monkeypatch.setattr(registry, "REGISTRY", FIXTURE / REGISTRY.relative_to(ROOT))
    registry._load_default.cache_clear()
    yield
    registry._load_default.cache_clear()


@pytest.mark.parametrize(("line", "said"), WRONG.items(), ids=WRONG)
def test_a_mistake_is_one_line_and_what_to_type(typed, line, said):
    what, *commands = said.split("\n")
    lines = [what, *(f"    {command}" for command in commands)]
    assert typed(*shlex.split(line)) == (2, "", "\n".join(lines) + "\n")


@pytest.mark.parametrize("line", ["", "help", "--help", "-h"])
def test_without_a_command_all_are_listed_with_one_next_step(typed, line):
    code, out, err = typed(*shlex.split(line))
    assert (code, err) == (0, "")
    names = re.findall(r"^  ([a-z-]+) +[A-Z]", out, re.MULTILINE)
    assert sorted(names) == sorted(name for name, command in every_command() if not command.hidden)
    assert out.count("pdm run ") == 2, "in the usage, and the next step"
    assert out.endswith("  Your progress and next step: pdm run status\n")
    assert not re.search(r"\.\.\.\n", out.partition("\n\n")[2]), "no description is cut"
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("line", ["help test", "test --help", "test -h"])
def test_help_is_on_a_command_too(typed, line):
    assert typed(*line.split()) == typed("test", "--help")
    assert typed(*line.split())[1].startswith("Usage: pdm run test [OPTIONS] [1.1.2 | 1.1 | 1]...\n")


def test_the_maintainers_commands_are_listed_too(typed):
    code, out, _ = typed("dev")
    assert code == 0
    assert "  transcripts " in out


def every_command():
    context = cli.cli.make_context("pdm run", [])
    return [(name, cli.cli.get_command(context, name)) for name in cli.cli.list_commands(context)]


def test_only_the_command_that_is_typed_is_imported():
    loaded = "import sys; from tiny_llm_course.commands.cli import cli; cli.main(['hint', '--help'], 'x', None, False)"
    told = "; print([name for name in sys.modules if name.startswith('tiny_llm_course.commands.')])"
    done = subprocess.run([sys.executable, "-c", loaded + told], capture_output=True, text=True, check=True)
    names = {name.rsplit(".", 1)[1] for name in eval(done.stdout.splitlines()[-1])}
    assert names == {"cli", "groups", "history"}  # which holds `hint`, too


def test_pdm_describes_its_scripts_in_the_same_words():
    """`pdm run --list` shows them; a bare `pdm run` is PDM's own, and opens Python."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pdm"]["scripts"]
    for name, command in every_command():
        assert scripts[name]["cmd"] == f"python -S src/tiny_llm_course/bootstrap.py {name}"
        assert scripts[name]["help"] == command.short_help


def test_a_task_of_a_day_is_proposed_where_the_learner_is(typed, monkeypatch):
    monkeypatch.setattr(progress, "status_of", lambda task: "passed" if task in ("1.1.1", "1.1.2") else None)
    assert typed("hint", "1.1")[2].endswith("\n    pdm run hint 1.1.3\n")
    assert typed("compare", "1.1")[2].endswith("\n    pdm run compare 1.1.1\n")
    assert typed("hint")[2] == "hint takes a task. You may mean 1.1.3 Line:\n    pdm run hint 1.1.3\n"


def test_a_week_is_named_in_two_ways():
    assert selected((), 1, None) == selected(("1",), None, None) == list(load_course().tasks())
    assert list(selected((), 1, 2)) == selected(("1.2",), None, None)
    assert (spelled((), 1, None), spelled((), 1, 2), spelled(("1.1.2", "1.2"), None, None)) == ("1", "1.2", "1.1.2 1.2")


def test_a_week_of_the_learner_is_graded():
    with fixture("1.1.1") as checkout:
        done = run("test --week 1 -- -k formula", checkout)
    assert done.returncode == 1
    assert "✓ 1.1.1 Mean: passed, " in done.stdout
    assert "○ 1.2.1 to 1.2.2: not started\n" in done.stdout
    assert done.stdout.endswith("\n1 of 5 tasks passed in all. Next: 1.1.2 Variance.\n")


def test_a_relative_path_begins_where_the_person_stands(tmp_path):
    """PDM starts its scripts in the project's folder, and says in PDM_RUN_CWD where it was called."""
    started = [sys.executable, str(ROOT / "src/tiny_llm_course/bootstrap.py"), "generate", "x", "--model", "mine"]
    (tmp_path / "mine").mkdir()
    for root, said in (
        (ROOT, "mine/config.json is missing\n"),
        (tmp_path, "mine is neither a checkpoint folder nor"),
    ):
        env = {**os.environ, "PDM_PROJECT_ROOT": str(root), "PDM_RUN_CWD": str(tmp_path)}
        done = subprocess.run(started, cwd=ROOT, env=env, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith(said)


def test_help_imports_no_command():
    listed = "import sys; from tiny_llm_course.commands.cli import cli; cli.main(['help'], 'x', None, False)"
    told = "; print([name for name in sys.modules if name.startswith('tiny_llm_course.commands.')])"
    done = subprocess.run([sys.executable, "-c", listed + told], capture_output=True, text=True, check=True)
    assert re.search(r"^  watch +On every save, grade what has changed\.$", done.stdout, re.MULTILINE)
    assert {name.rsplit(".", 1)[1] for name in eval(done.stdout.splitlines()[-1])} == {"cli", "groups"}


class Full(io.StringIO):
    """A stream on a full device."""

    def flush(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fileno(self):
        return os.open(os.devnull, os.O_WRONLY)


def test_an_output_that_cannot_be_written_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pdm run", "hint", "1.1.1"])
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "The output cannot be written: No space left on device.\n"


def test_the_book_is_served_at_a_port_that_is_free(monkeypatch):
    called = []
    monkeypatch.setattr(
        page_metadata, "run_mdbook", lambda *words: called.append(words) or SimpleNamespace(returncode=0)
    )
    with socket.socket() as free:
        free.bind(("localhost", 0))
        free.listen()
        port = free.getsockname()[1]
        with pytest.raises(registry.UsageError, match=f"Port {port} cannot be used: .*Try another --port."):
            tools.book.main(["--port", str(port)], standalone_mode=False)
    assert not called
    assert tools.book.main(["--no-open", "--port", str(port)], standalone_mode=False) == 0
    assert called[0][:3] == ("serve", "--port", str(port))
