"""The quiz of week 7, day 4."""

import contextlib
import os
from typing import Any

from tests.week7.leftovers import HOLD, background_process
from tests.week7.scenes import new_scene

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "7.4.1",
    "A workspace `w` contains `src/main.py` and `notes.txt`, a link `l` to `src/pkg`, and a link `k` to `/notes.txt`. "
    "Which of the paths `l/../main.py`, `k` and `../w/notes.txt` does the root open?",
    why="`..` after a link is the parent of the folder that the link leads to. The other two leave the workspace, even "
    "though the last one comes back to it.",
    mistakes={
        "up-in-the-text": "`l/..` is not the workspace, but the folder above `src/pkg`.",
        "absolute-links-from-the-root": "`/notes.txt` is outside the workspace, whatever file of that name is inside.",
        "resolve-then-open": "A path that goes outside depends on what exists outside, even if it comes back.",
    },
)
def three_paths(root: Any) -> str:
    found = []
    with new_scene() as scene:
        (scene.w / "l").symlink_to("src/pkg")
        (scene.w / "k").symlink_to("/notes.txt")
        with root(scene.w) as made:
            for path in ("l/../main.py", "k", "../w/notes.txt"):
                with contextlib.suppress(OSError, ValueError):
                    os.close(made.open(path))
                    found.append(f"`{path}`")
    return ", ".join(found) or "none"


@quiz.question(
    "7.4.3",
    "A file with the permissions 0o750 contains the lines `a` and `b`, both ending in CR LF. An edit replaces `b` with "
    "`c`, and nothing else changes while the user reads the diff. What are the file's bytes and permissions after "
    "approval?",
    why="An edit changes the text that it names, but neither line endings nor permissions.",
    mistakes={
        "line-endings-changed": "Reading in text mode changes every line of the file.",
        "permissions-lost": "A script that was executable no longer is.",
    },
)
def an_edit(changes: Any) -> str:
    from tiny_llm_solution.workspace.journal import Journal
    from tiny_llm_solution.workspace.root import Root

    with new_scene() as scene, Root(scene.w) as root:
        file = scene.w / "f"
        file.write_bytes(b"a\r\nb\r\n")
        file.chmod(0o750)
        changes(root, Journal(scene.folder / "undo"), lambda _action, _diff: True).edit("f", "b", "c")
        return f"`{file.read_bytes()!r}`, {oct(file.stat().st_mode & 0o777)}"


@quiz.question(
    "7.4.4",
    "A command starts a background process that keeps the pipe open for 3 seconds. The command itself prints *ok* and "
    "exits with code 0 at once. The limit is 2 seconds. What happens?",
    why="The command has ended, so the function stops waiting and kills the process group.",
    mistakes={
        "only-when-stopped": "The process could still hold a port or write a file when the next command runs.",
        "until-the-pipe-is-closed": "The command itself has ended. Other processes that hold the pipe do not matter.",
    },
)
def in_the_background(program: Any) -> str:
    from tiny_llm_solution.workspace.limits import Limits

    with background_process() as (path, alive):
        folder = os.open(path, os.O_RDONLY)
        try:
            found = program(["sh", "-c", HOLD], folder, Limits(wall_seconds=2))
        finally:
            os.close(folder)
        end = "the command is stopped at its limit" if found.stopped else f"the exit code is {found.code}"
        return f"{end}, and the background process {'keeps running' if alive() else 'is killed'}"
