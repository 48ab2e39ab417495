"""Day 4's figure and widget, of recorded races between a program and another process, and the table of ways out."""

import contextlib
import functools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

from tests.week7.abuse import WAYS
from tests.week7.scenes import Adversary, Scene, new_scene, swap

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import COLUMN, FONT
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import ROOT

PATH = "src/main.py"


def hard_link(scene: Scene) -> None:
    """Replace the file by a hard link to the secret."""
    (scene.w / PATH).unlink()
    os.link(scene.outside / "main.py", scene.w / PATH)


# What another process does at one moment, in words.
ATTACKS: dict[str, Callable[[Scene], object]] = {
    "src becomes a link to ../outside": lambda s: swap(s.w / "src", "../outside"),
    "main.py becomes a link to the secret": lambda s: swap(s.w / PATH, "../../outside/main.py"),
    "main.py becomes a hard link to the secret": hard_link,
}

CHECKED, FOLLOWING, SAFE = "resolve, check, open", "descriptors, without O_NOFOLLOW", "your root"
PROGRAMS = (CHECKED, FOLLOWING, SAFE)
Step = tuple[str, str]  # a system call and its answer; the other process's has the answer ""


# What happens to the first way of each group, where the table of ways has only a word of the message.
HAPPENS = {
    "paths": "refused: the path leaves the workspace",
    "names": "no such file: `~` is a name like any other",
    "links": "refused: the path leaves the workspace",
    "special files": "refused: the file has two hard links",
    "races": "refused, or the call uses the folder that was already open",
    "approvals": "the call uses the folder that was already open",
    "commands": "the command runs in a new environment",
}


def generated_parts() -> Parts:
    """Return the figure, the tables, the widget, and a run of the agent."""
    dogs = make_dogs()
    return {
        "ways": ways(),
        "order": order(),
        "race-steps": race_steps(),
        "make-dogs": quoted(dogs.splitlines()),
        "session": session(dogs),
    }


def quoted(lines: list[str]) -> str:
    """Return lines as a block of text."""
    return "\n".join(["```text", *lines, "```", ""])


def make_dogs() -> str:
    """Return commands that create the workspace `dogs` and a script for its agent."""
    calls = [
        ("read_file", {"path": "dog.py"}),
        ("edit_file", {"path": "dog.py", "old": "red", "new": "blue"}),
        ("run_command", {"command": ["python", "test_dog.py"]}),
    ]
    answers = [
        f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>" for name, arguments in calls
    ]
    script = ",\n ".join(map(json.dumps, [*answers, "The dog is blue now."]))
    return f"""\
mkdir dogs
echo 'COLOR = "red"' > dogs/dog.py
echo 'assert "blue" in open("dog.py").read()' > dogs/test_dog.py
cat > answers.json <<'END'
[{script}]
END"""


def session(dogs: str) -> str:
    """Quote a run of the agent, with scripted answers, and its undo, as a terminal shows them."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["sh", "-c", dogs], cwd=folder, check=True)
        for words in (["Make the test pass.", "--script", "answers.json", "--yes"], ["--undo"]):
            typed = ["agent", *words, "--workspace", "dogs"]
            lines.append(f"$ pdm run {shlex.join(typed)}")
            done = subprocess.run(
                [sys.executable, "-m", "tiny_llm_course", *typed, "--solution"],
                cwd=folder,
                env=os.environ | {"HOME": folder, "PYTHONPATH": str(ROOT / "src")},
                stdout=subprocess.PIPE,
                check=True,
                encoding="utf-8",
            )
            lines += done.stdout.replace(" --solution", "").splitlines()
    return quoted(lines)


class Calls:
    """Stands for the module `os`: records the calls that look something up, and lets the other process act."""

    def __init__(self, scene: Scene, attack: str, moment: int, follow: bool) -> None:
        self.scene, self.attack, self.moment, self.follow = scene, attack, moment, follow
        self.steps: list[Step] = []
        self.names = dict[int, str]()
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def call(self, words: str, run: Callable[[], Any], answer: Callable[[Any], str]) -> Any:
        """Run a call, perhaps after the other process."""
        if self.count == self.moment:
            self.steps.append((self.attack, ""))
            ATTACKS[self.attack](self.scene)
        self.count += 1
        try:
            found = run()
        except OSError:
            self.steps.append((words, "no link" if words.startswith("readlink") else "refused"))
            raise
        self.steps.append((words, answer(found)))
        return found

    def dup(self, descriptor: int) -> int:
        """Record the root's name."""
        found = os.dup(descriptor)
        self.names[found] = "w"
        return found

    def readlink(self, name: str, *, dir_fd: int) -> str:
        """Record whether a name is a link."""
        words = f"readlink {name}, in {self.names[dir_fd]}"
        found: str = self.call(words, lambda: os.readlink(name, dir_fd=dir_fd), lambda target: f"a link to {target}")
        return found

    def open(self, name: str, flags: int, mode: int = 0o644, *, dir_fd: int) -> int:
        """Record what is opened."""
        flags = flags & ~os.O_NOFOLLOW if self.follow else flags
        words = f"open {name}, in {self.names[dir_fd]}"
        found: int = self.call(words, lambda: os.open(name, flags, mode, dir_fd=dir_fd), lambda _: "open")
        self.names[found] = name
        return found

    def fstat(self, descriptor: int) -> os.stat_result:
        """Record the number of hard links."""
        words = "fstat of what is open"
        found: os.stat_result = self.call(
            words,
            lambda: os.fstat(descriptor),
            lambda about: f"{about.st_nlink} hard link{'s' * (about.st_nlink != 1)}",
        )
        return found


@functools.cache
def recorded(program: str, attack: str, moment: int) -> tuple[list[Step], str, bool]:
    """Run a program, with the other process acting just before the call of this number; -1 for never.

    Return the steps, how it ends, and whether the other process acted.
    """
    from tiny_llm_solution.workspace import root

    with new_scene() as scene:
        calls = Calls(scene, attack, moment, program == FOLLOWING)
        end = "refused"
        with contextlib.suppress(OSError, ValueError):
            if program == CHECKED:
                found = _checked(calls)
            else:
                with root.Root(scene.w) as made, mock.patch.object(root, "os", calls):
                    found = made.open(PATH)
            text = os.read(found, 100).decode().strip()
            os.close(found)
            end = f"reads {text}"
        return calls.steps, end, any(not answer for _, answer in calls.steps)


def _checked(calls: Calls) -> int:
    """Resolve, check and open."""
    w = calls.scene.w
    real = calls.call(
        f"realpath w/{PATH}", lambda: os.path.realpath(w / PATH), lambda real: "w" + real.removeprefix(str(w))
    )
    if not real.startswith(f"{w}{os.sep}"):
        calls.steps[-1] = (calls.steps[-1][0], "outside")
        raise ValueError(PATH)
    found: int = calls.call(f"open w/{PATH}", lambda: os.open(w / PATH, os.O_RDONLY), lambda _: "open")
    return found


def runs_of(program: str, attack: str) -> list[tuple[list[Step], str]]:
    """Return the run without the other process, then one for each moment."""
    found = [recorded(program, attack, -1)[:2]]
    for moment in range(20):
        steps, end, acted = recorded(program, attack, moment)
        if acted:
            found.append((steps, end))
    return found


def race() -> str:
    """Draw the first attack on two programs, at the worst moment of the first one and at the same one of the other."""
    attack = next(iter(ATTACKS))
    shown = [(CHECKED, runs_of(CHECKED, attack)[2]), (SAFE, runs_of(SAFE, attack)[2])]

    def draw(canvas: Canvas) -> None:
        wide = canvas.width > COLUMN - 1
        width = (canvas.width - 26) / 2 if wide else canvas.width - 6
        x, top, lowest = 0.0, 0.0, 0.0
        for number, (program, (steps, end)) in enumerate(shown):
            if number:
                x, top = (width + 16, 0.0) if wide else (0.0, lowest + 30)
            y = top + FONT
            canvas.text(x, y, program, "strong")
            y += 10
            for call, answer in steps:
                if answer:
                    canvas.rect(x, y, width, 24, "frame", 4)
                    canvas.text(x + 8, y + 16, call, "mono small")
                    canvas.text(x + width - 8, y + 16, answer, "small", "end")
                else:
                    canvas.rect(x + 24, y, width - 24, 24, "hollow", 4)
                    canvas.text(x + 32, y + 16, call, "strong small")
                y += 30
            canvas.text(x + width - 8, y + FONT, end, "strong", "end")
            lowest = max(lowest, y + FONT + 4)

    (_, first), (_, second) = shown
    about = "; ".join(
        f"{program}: " + ", ".join(f"{call}{': ' if answer else ''}{answer}" for call, answer in steps) + f"; it {end}"
        for program, (steps, end) in shown
    )
    caption = (
        f"Two recorded runs that open <code>{PATH}</code> in the workspace <code>w</code>, while another process acts "
        f"just before the second system call. The first program has already checked the path, and then {first[1]}. "
        f"The second program is your root, as it is once the tests pass: the open "
        f"{'is refused' if second[1] == 'refused' else second[1]}."
    )
    return at_both_widths(draw).figure("race-7-4", "A race between a check and an open", about, caption)


def ways() -> str:
    """Return the table of ways out: how many in each group, and the first one."""
    groups = Counter(way.group for way in WAYS)
    lines = [f"The tests try {len(WAYS)} ways out of a workspace, and none of them succeeds:", ""]
    lines += ["| Group | Ways | Example | What happens in the example |", "|---|---|---|---|"]
    for group, count in groups.items():
        first = next(way for way in WAYS if way.group == group)
        shown = f"{first.name}: `{first.path}`" if first.path else first.name
        lines.append(f"| {group} | {count} | {shown} | {HAPPENS.get(group, first.happens)} |")
    return "\n".join([*lines, ""])


def order() -> str:
    """Return a table of what is on the disk at each moment of an edit and of its undo, as recorded."""
    from tiny_llm_solution.workspace.changes import Changes
    from tiny_llm_solution.workspace.journal import Journal
    from tiny_llm_solution.workspace.root import Root

    rows: list[str] = []
    with new_scene() as scene, Root(scene.w) as root:
        file, journal = scene.w / "notes.txt", Journal(scene.folder / "undo")

        def look(moment: str) -> None:
            beside = sum(path.name.endswith(".tmp") for path in scene.w.iterdir())
            rows.append(f"| {moment} | `{file.read_text().strip()}` | {beside} | {len(journal)} |")

        def approve(_action: str, _diff: str) -> bool:
            look("while the user reads the diff")
            return True

        changes = Changes(root, journal, approve)
        with (
            Adversary(0, lambda: look("just before the undo step is written"), {"os.rename"}),
            mock.patch.object(os, "fchmod", side_effect=lambda *_: look("when the new file has been written")),
        ):
            changes.edit("notes.txt", "inside", "edited")
        look("after the edit")
        changes.undo()
        look("after the undo")
    head = ["| Moment | `notes.txt` | Temporary files beside it | Undo steps in the journal |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def race_steps() -> str:
    """Return the widget, with the figure as its still."""
    runs = [[runs_of(program, attack) for attack in ATTACKS] for program in PROGRAMS]
    data = {
        "programs": PROGRAMS,
        "attacks": [*ATTACKS],
        "runs": [[[{"steps": steps, "end": end} for steps, end in moments] for moments in row] for row in runs],
    }
    return element("race-steps", data, race().rstrip())
