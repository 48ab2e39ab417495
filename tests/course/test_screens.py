"""Whatever a command prints reads well on a terminal of 40 and of 80 columns, and is unchanged where there is none.

The table is the list of what is held to that: a line is what is typed, and the commands in its answer that somebody
may want to copy. What a terminal shows must be the words that a pipe gets, in the same order, in lines that fit.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.course.checkouts import fixture, replace
from tests.course.circumstances import on_a_narrow_terminal, run
from tests.course.terminal import CTRL_D, Terminal

from tiny_llm_course.dev.transcripts import Edit, environment
from tiny_llm_course.paths import ROOT
from tiny_llm_course.terminal.wrapping import cells

pytestmark = pytest.mark.maintainers
WIDTHS = (40, 80)
LONG = (
    "y = x * slope[0, 0]  # a comment that goes on and on, as comments do when somebody explains himself, to the margin"
)
PRINTS = "print('spread', [0.123456789] * 12)\n    return mean(mx.abs(centered), axis)"
EDITS = (
    Edit("spread.py", PRINTS, "return mean(centered * centered, axis)"),
    Edit("basics.py", LONG, "y = x * slope"),
)
HINT, READ = "pdm run hint 1.1.2", "https://tiny-llm.github.io/tiny-llm/week1/day1.html"

TYPED: dict[str, tuple[str, ...]] = {
    # Grading.
    "test": (HINT, "pdm run hint 1.1.3", READ, "src/tiny_llm/basics.py:36"),
    "test 1.1.2 1.2.1": (HINT, "pdm run return 1.2.1"),
    "test --week 1": (HINT, READ),
    "test 1.1 --solution": (),
    "test 1.2": ("pdm run hint 1.2.2", "https://tiny-llm.github.io/tiny-llm/week1/day2.html"),
    # Where somebody stands.
    "status": ("pdm run test 1.1.2",),
    "status --all": ("pdm run test 1.1.2",),
    "hint 1.1.2": (HINT,),
    "history": ("pdm run history 1.1.3",),
    "history 1.1.2": (),
    "history 1.2.2": ("pdm run test 1.2.2",),
    "doctor": ("pdm run test 1.1", "pdm run test 1.1 --oracle torch|pdm run pip install torch=="),
    "bench": ("pdm run bench 1.1", "pdm run bench 1.1 --solution"),
    "bench 1.1": ("pdm run test 1.1.2",),
    # What changes something.
    "borrow 1.1.2 1.2": ("pdm run return 1.1.2 1.2", "pdm run status"),
    "borrow": ("pdm run return 1.2.1", "pdm run return --all"),
    "return 1.2.1": ("pdm run test 1.2.1",),
    "reset 1.1.2 --yes": ("pdm run test 1.1.2",),
    "sync --dry-run": ("pdm run sync", "pdm run test 1.1.2"),
    "export 1.1 --format junit --out verdicts.xml": (),
    "generate Once --solution --stage kv-cache --seed 1 --temp 0 --max-tokens 20": (),
    # Wrong use.
    "test --week 9 --day 1": (),
    "test 1.1.9": (),
    "test banana": (),
    "test 1.1 --week 1 --day 1": (),
    "test -k task_1": ("pdm run test 1.1 -- -k ...",),
    "test 1.1 -- --no-such-option": (),
    "hint": ("pdm run hint 1.1.2",),
    "quiz 1": ("pdm run quiz 1.1",),
    "export --format junit --history": ("pdm run export --format json --history",),
    "status --day 2": ("pdm run status --week 1 --day 2",),
    "watch banana": (),
    "compare 1.1.2": ("pdm run test 1.1.2",),
    "return 1.1": (),
    "reset 1.9": (),
    "bench --json x.json": ("pdm run bench 1.1 --json FILE",),
    "export": ("pdm run export --format junit",),
    "export --format junit --out no/folder/here/verdicts.xml": (),
    "sync --remote nowhere": (),
    "generate": ("pdm run generate --help",),
    "attention": ("pdm run attention --help",),
    "attention dog --svg no/folder/here/heads.svg": (),
    "generate Once --solution --model models/no-such-model": (),
    "chat --temp nan": (),
    "train nothing.txt --out somewhere": (),
    "no-such-command": (),
    # Help.
    "help": ("pdm run status",),
    "help test": (),
    "test --help": (),
    "generate --help": (),
    "attention --help": (),
    "export --help": (),
    "train --help": (),
}
# What leaves something behind; each of these has a checkout of its own.
CHANGING = ("hint 1.1.2", "borrow 1.1.2 1.2", "return 1.2.1", "reset 1.1.2 --yes")
# What needs a model: the course itself.
WITH_A_MODEL = ("generate Once --solution --stage kv-cache --seed 1 --temp 0 --max-tokens 20",)
# Its layout depends on the width: words may be left out, and none is cut without a sign.
LAID_OUT = ("status", "status --all")


def git(checkout: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(checkout), *who, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def origin():
    """Day 1 with a right task, a wrong one that prints, and one that raises; 1.2.1 borrowed; upstream has news."""
    with fixture("1.1.1", "1.1.2", "1.1.3", edits=EDITS) as checkout:
        for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "As it was"]):
            git(checkout, *arguments)
        upstream = checkout.with_name("upstream")
        git(checkout, "clone", "-q", str(checkout), str(upstream))
        replace(upstream / "src/tiny_llm/spread.py", "mx.abs(centered)", "2 * mx.abs(centered)")
        replace(upstream / "tests/week1/formulas.py", "import numpy", "# News.\nimport numpy")
        git(upstream, "commit", "-q", "-a", "-m", "News")
        git(checkout, "remote", "add", "upstream", str(upstream))
        started(checkout, "test 1.1 1.2")
        started(checkout, "borrow 1.2.1")
        yield checkout


def command_line(typed: str) -> list[str]:
    return [sys.executable, "-m", "tiny_llm_course", *typed.split()]


def environment_of(checkout: Path) -> dict[str, str]:
    kept = {name: value for name, value in environment(checkout).items() if name not in ("COLUMNS", "NO_COLOR")}
    return {**kept, "TERM": "dumb"}


def started(checkout: Path, typed: str, columns: int | None = None) -> str:
    """What a command prints on a terminal, or in a pipe; without colors."""
    if columns is None:
        return run(command_line(typed), checkout, environment_of(checkout))[1]
    return on_a_narrow_terminal(command_line(typed), checkout, environment_of(checkout), columns)[1]


def shown(origin: Path, folder: Path, typed: str) -> dict[int | None, str]:
    """The same in a pipe and on all terminals."""
    if typed not in CHANGING:
        checkout = ROOT if typed in WITH_A_MODEL else origin
        return {columns: started(checkout, typed, columns) for columns in (None, *WIDTHS)}
    prints = {}
    for columns in (None, *WIDTHS):  # in the same place, which some name
        shutil.copytree(origin, folder, symlinks=True)
        prints[columns] = started(folder, typed, columns)
        shutil.rmtree(folder)
    return prints


def words(text: str) -> str:
    """The words in their order, whatever the lines; numbers that another run would give otherwise as 0."""
    joined = " ".join(text.replace(" \\\n", "\n").split())
    return re.sub(r"\d+(?:\.\d+)?|[\d-]+T[\d:]+", "0", joined)


@pytest.mark.parametrize("typed", TYPED)
def test_what_is_printed_fits(origin, tmp_path, typed):
    prints = shown(origin, tmp_path / "course", typed)
    piped = prints.pop(None)
    assert "Traceback" not in piped
    assert piped.strip(), typed
    for columns, screen in prints.items():
        fits(typed, piped, screen, columns)


def fits(typed: str, piped: str, screen: str, columns: int) -> None:
    for line in screen.splitlines():
        # A word or a path that is wider than the terminal has a line of its own.
        assert cells(line) <= columns or max(map(cells, line.split())) + 4 >= columns, screen
    if typed in LAID_OUT:
        known = set(piped.replace(":", " ").split())
        assert all(word in known or "…" in word for word in screen.replace(":", " ").split()), screen
    else:
        # What is cut ends with an ellipsis, and so it begins what was there; all else is there, and whole.
        pattern = re.escape(words(screen)).replace("…", r"[^\n]*?")
        assert re.fullmatch(pattern, words(piped)), f"{screen}\n{piped}"
    for command in TYPED[typed]:
        assert any(one in line for one in command.split("|") for line in screen.splitlines()), (command, screen)


def test_colors_take_no_room(origin, tmp_path):
    shutil.copytree(origin, tmp_path / "course", symlinks=True)
    command, settings = command_line("test 1.1"), environment_of(tmp_path / "course")
    colored = on_a_narrow_terminal(command, tmp_path / "course", settings)
    plain = on_a_narrow_terminal(command, tmp_path / "course", {**settings, "NO_COLOR": "1"})
    assert colored == plain


@pytest.mark.parametrize(
    ("columns", "wanted", "longest"), [(40, "100", 72), (100, "40", 40), (0, "", 72), (40, "x", 40)]
)
def test_the_width_is_the_terminals_unless_columns_says_another(origin, columns, wanted, longest):
    """A terminal that does not know its width has 80 columns."""
    settings = {**environment_of(origin), "COLUMNS": wanted}
    _, screen = on_a_narrow_terminal(command_line("test 1.1 --week 1"), origin, settings, columns)
    assert "Name a task or a day either as 1.1.2 or" in screen
    assert max(map(len, screen.splitlines())) <= longest
    assert (len(screen.splitlines()) == 1) == (longest == 72)


def test_a_terminal_may_change_its_width_while_a_command_runs():
    with Terminal("chat", "--solution", "--max-tokens", "4", columns=100) as terminal:
        terminal.wait_for("tiny-qwen3. /reset forgets, /quit or Ctrl-D leaves, Ctrl-C stops an answer.\n> ")
        terminal.resize(40)
        terminal.type("/help\n")
        terminal.wait_for("/reset forgets, /quit or Ctrl-D leaves,\n  Ctrl-C stops an answer.\n> ")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_a_question_fits(origin, tmp_path):
    shutil.copytree(origin, tmp_path / "course", symlinks=True)
    with Terminal("reset", "1.1.2", checkout=tmp_path / "course", columns=40) as terminal:
        terminal.wait_for("Continue? [y/N]: ")
        terminal.type("n\n")
        assert terminal.end() == 1
    assert terminal.screen.splitlines()[-3:] == [
        "Your current code will be backed up.",
        "Continue? [y/N]: n",
        "Nothing was changed.",
    ]
    assert max(map(len, terminal.screen.splitlines())) <= 40
