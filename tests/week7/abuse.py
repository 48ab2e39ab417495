"""Ways out of a workspace, and what happens to each: the table that the tests of day 4 go through, and the book counts.

A path is given to every tool that takes one; `make` prepares the scene. A race is run once for each system call of the
tool, just before it. During an approval, a user reads for as long as the adversary likes. A command is run, and what it
prints is looked at.
"""

import dataclasses
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from tests.week7.scenes import SECRET, swap


def nothing(_scene: Any) -> None:
    """Leave the scene as it is."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One way out. `happens` is a part of the refusal, or says in the book's words what happens instead."""

    group: str
    name: str
    path: str = ""
    happens: str = ""
    make: Callable[[Any], object] = nothing
    race: Callable[[Any], object] | None = None
    during: Callable[[Any], object] | None = None
    command: tuple[str, ...] = ()


def link(name: str, target: str) -> Callable[[Any], None]:
    """Return a function that makes a link in the workspace; `{folder}` in the target is the scene's folder."""

    def make(scene: Any) -> None:
        (scene.w / name).symlink_to(target.format(folder=scene.folder))

    return make


def links(**targets: str) -> Callable[[Any], None]:
    """Return a function that makes several links."""

    def make(scene: Any) -> None:
        for name, target in targets.items():
            link(name, target)(scene)

    return make


def chain(scene: Any) -> None:
    """Make 41 links, each to the next one, and the last to a file."""
    for i in range(41):
        (scene.w / f"l{i}").symlink_to(f"l{i + 1}" if i < 40 else "notes.txt")


def listening(scene: Any) -> None:
    """Make a socket. Its path is relative, because a socket's has at most about 100 bytes."""
    here = os.open(".", os.O_RDONLY)
    os.chdir(scene.w)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("talk")
    os.fchdir(here)
    os.close(here)


def hard_link(scene: Any) -> None:
    """Replace a file by a hard link to one outside."""
    (scene.w / "notes.txt").unlink()
    os.link(scene.outside / "secret.txt", scene.w / "notes.txt")


def pipe(scene: Any) -> None:
    """Replace a file by a pipe."""
    (scene.w / "notes.txt").unlink()
    os.mkfifo(scene.w / "notes.txt")


def deep(folder: Any) -> None:
    """Make 70 folders, one in the other."""
    (folder / ("d/" * 70)).mkdir(parents=True)


LEAVES, ABSOLUTE, HIDDEN = "leaves the workspace", "absolute", "not open to the tools"
CONTROL, MISSING, TARGET = "control character", "No such file", "whose target is absolute"
INSIDE = "the folder that was found is used"
PATHS = [
    Way("paths", "the folder above", "../outside/secret.txt", LEAVES),
    Way("paths", "down and up", "src/../../outside/secret.txt", LEAVES),
    Way("paths", "out and back in", "../w/notes.txt", LEAVES),
    Way("paths", "nothing but ..", "..", LEAVES),
    Way("paths", "dots between", "./.././outside/./secret.txt", LEAVES),
    Way("paths", "double slashes", "src//..//..//outside//secret.txt", LEAVES),
    Way("paths", "a hundred folders up", "../" * 100 + "etc/passwd", LEAVES),
    Way("paths", "through a file", "notes.txt/../../outside/secret.txt", "Not a directory"),
    Way("paths", "through nothing", "missing/../../outside/secret.txt", MISSING),
    Way("paths", "a neighbor whose name begins alike", "../w-private/secret.txt", LEAVES),
    Way("paths", "an absolute path", "/etc/passwd", ABSOLUTE),
    Way("paths", "two slashes", "//etc/passwd", ABSOLUTE),
    Way("paths", "the root of the disk", "/", ABSOLUTE),
    Way("paths", "a path from the process's working folder", "outside/secret.txt", MISSING),
    Way("paths", "an empty path", "", "empty"),
    Way("paths", "a thousand folders", "a/" * 1000 + "x", MISSING),
    Way("paths", "deeper than descriptors last", "d/" * 70 + "x", "folders deep", lambda s: deep(s.w)),
    Way("paths", "a name of 5,000 bytes", "n" * 5000, "File name too long"),
]
NAMES = [
    Way("names", "a home folder", "~/secret.txt", MISSING),
    Way("names", "a variable", "$HOME/secret.txt", MISSING),
    Way("names", "a URL", "file:///etc/passwd", MISSING),
    Way("names", "backslashes", "..\\outside\\secret.txt", MISSING),
    Way("names", "percent signs", "%2e%2e/outside/secret.txt", MISSING),
    Way("names", "an encoded slash", "..%2foutside/secret.txt", MISSING),
    Way("names", "full-width dots", "\uff0e\uff0e/outside/secret.txt", MISSING),
    Way("names", "a two-dot leader", "\u2025/outside/secret.txt", MISSING),
    Way("names", "an overlong encoding", "\udcc0\udcae\udcc0\udcae/outside/secret.txt", CONTROL),
    Way("names", "a space before", " ../outside/secret.txt", MISSING),
    Way("names", "three dots", ".../outside/secret.txt", MISSING),
    Way("names", "a zero byte", "notes.txt\0/../../outside/secret.txt", CONTROL),
    Way("names", "a line break", "notes.txt\n../outside/secret.txt", CONTROL),
    Way("names", "an escape sequence, to fool who approves", "notes.txt\x1b[2Ksafe.txt", CONTROL),
    Way("names", "half a surrogate pair", "\ud800", CONTROL),
    Way("names", "git's folder", ".git/config", HIDDEN),
    Way("names", "git's folder in capitals", ".GIT/config", HIDDEN),
    Way("names", "git's folder, down and up", "src/../.git/hooks/pre-commit", HIDDEN),
    Way("names", "git's folder of a module", "src/.git/config", HIDDEN),
]
LINKS = [
    Way("links", "to a file outside", "out", LEAVES, link("out", "../outside/secret.txt")),
    Way("links", "to a folder outside", "out/secret.txt", LEAVES, link("out", "../outside")),
    Way("links", "to a file by its full path", "out", TARGET, link("out", "{folder}/outside/secret.txt")),
    Way("links", "to a folder by its full path", "out/secret.txt", TARGET, link("out", "{folder}/outside")),
    Way("links", "to the workspace by its full path", "home/notes.txt", TARGET, link("home", "{folder}/w")),
    Way("links", "to the disk's root", "disk/etc/passwd", TARGET, link("disk", "/")),
    Way("links", "to a device", "zero", TARGET, link("zero", "/dev/zero")),
    Way("links", "to the process's own files", "self/cwd", TARGET, link("self", "/proc/self")),
    Way("links", "to our open files", "fd/0", TARGET, link("fd", "/dev/fd")),
    Way("links", "to the folder above", "up/outside/secret.txt", LEAVES, link("up", "..")),
    Way("links", "out and back in", "back", LEAVES, link("back", "../w/notes.txt")),
    Way("links", "in a folder", "src/out", LEAVES, link("src/out", "../../outside/secret.txt")),
    Way("links", "to a link", "one", LEAVES, links(one="two", two="../outside/secret.txt")),
    Way("links", "to a folder, then up", "deep/../../../outside/secret.txt", LEAVES, link("deep", "src/pkg")),
    Way("links", "to a folder, then up by a link", "deep/up", LEAVES,
        lambda s: (link("deep", "src/pkg")(s), link("src/pkg/up", "../../../outside/secret.txt")(s))),
    Way("links", "to here, then up", "here/../outside/secret.txt", LEAVES, link("here", ".")),
    Way("links", "with double slashes", "out", LEAVES, link("out", "..//outside//secret.txt")),
    Way("links", "with a slash at the end", "out/", LEAVES, link("out", "../outside/")),
    Way("links", "to a file that does not exist yet", "new", LEAVES, link("new", "../outside/new.txt")),
    Way("links", "to a folder that does not exist yet", "new/x", LEAVES, link("new", "../outside/later")),
    Way("links", "to itself", "loop", "links", link("loop", "loop")),
    Way("links", "to each other", "a", "links", links(a="b", b="a")),
    Way("links", "41 in a row", "l0", "links", chain),
    Way("links", "to git's folder", "g/config", HIDDEN, link("g", ".git")),
    Way("links", "to git's folder, down and up", "g/hooks", HIDDEN, link("g", "src/../.git")),
]  # fmt: skip
FILES = [
    Way("special files", "a hard link to a file outside", "hard", "hard links",
        lambda s: os.link(s.outside / "secret.txt", s.w / "hard")),
    Way("special files", "a hard link in a folder", "src/hard.py", "hard links",
        lambda s: os.link(s.outside / "secret.txt", s.w / "src/hard.py")),
    Way("special files", "a pipe without a writer", "pipe", "neither a file nor a folder",
        lambda s: os.mkfifo(s.w / "pipe")),
    Way("special files", "a socket", "talk", "", listening),
]  # fmt: skip
RACES = [
    Way("races", "a folder becomes a link", "src/main.py", INSIDE, race=lambda s: swap(s.w / "src", "../outside")),
    Way("races", "a folder becomes a link by its full path", "src/main.py", INSIDE,
        race=lambda s: swap(s.w / "src", s.outside)),
    Way("races", "a deeper folder becomes a link", "src/pkg/deep.py", INSIDE,
        race=lambda s: swap(s.w / "src/pkg", "../../outside")),
    Way("races", "a file becomes a link", "notes.txt", "it is not followed",
        race=lambda s: swap(s.w / "notes.txt", "../outside/secret.txt")),
    Way("races", "a file becomes a hard link", "notes.txt", "refused once it is open",
        race=hard_link),
    Way("races", "a file becomes a pipe", "notes.txt", "refused once it is open",
        race=pipe),
    Way("races", "a link gets another target", "in/main.py", INSIDE, link("in", "src"),
        race=lambda s: ((s.w / "in").unlink(), (s.w / "in").symlink_to("../outside"))),
    Way("races", "a folder moves out while `..` is to come", "src/pkg/../main.py", INSIDE,
        race=lambda s: (s.w / "src/pkg").rename(s.outside / "pkg")),
    Way("races", "the workspace becomes a link", "notes.txt", INSIDE, race=lambda s: swap(s.w, "outside")),
    Way("races", "a missing folder appears, as a link", "later/x", MISSING,
        race=lambda s: (s.w / "later").symlink_to("../outside")),
]  # fmt: skip
APPROVALS = [
    Way("approvals", "the folder becomes a link", "src/main.py", INSIDE,
        during=lambda s: swap(s.w / "src", "../outside")),
    Way("approvals", "the file becomes a link", "notes.txt", "it is not followed",
        during=lambda s: swap(s.w / "notes.txt", "../outside/secret.txt")),
    Way("approvals", "the file becomes a hard link", "notes.txt", "refused",
        during=hard_link),
    Way("approvals", "the workspace becomes a link", "notes.txt", INSIDE, during=lambda s: swap(s.w, "outside")),
]  # fmt: skip
PYTHON = sys.executable
COMMANDS = [
    Way("commands", "a secret in the environment", happens="the environment is new",
        command=(PYTHON, "-c", "import os; print(os.environ.get('TINY_LLM_TEST_KEY'))")),
    Way("commands", "the user's home folder", happens="HOME is a new folder",
        command=("sh", "-c", "cat ~/secret.txt")),
    Way("commands", "an open file of ours", happens="descriptors are closed",
        command=(PYTHON, "-c", "import os\nfor i in range(3, 64):\n try: print(os.read(i, 9))\n except OSError: pass")),
    Way("commands", "what we could read from a terminal", happens="the input is empty",
        command=(PYTHON, "-c", "print(input())")),
    Way("commands", "a second command after a semicolon", happens="there is no shell",
        command=("echo", "hi;", "cat", "../outside/secret.txt")),
    Way("commands", "a command to insert", happens="there is no shell",
        command=("echo", "$(cat ../outside/secret.txt)")),
    Way("commands", "a name with a star", happens="there is no shell", command=("cat", "../outside/*")),
    Way("commands", "a module of the workspace in our launcher", happens="it imports nothing from there",
        command=("true",),
        make=lambda s: [(s.w / f"{name}.py").write_text(f"print({SECRET!r})\n") for name in ("os", "resource", "sys")]),
    Way("commands", "a library to preload", happens="the environment is new",
        command=(PYTHON, "-c", "import os; print(os.environ.get('PYTHONSTARTUP'), os.environ.get('PYTHONPATH'))")),
    Way("commands", "a workspace that became a link", happens="the folder is entered by its descriptor",
        command=("cat", "secret.txt"), during=lambda s: swap(s.w, "outside")),
]  # fmt: skip
BY_PATH = [*PATHS, *NAMES, *LINKS, *FILES]
WAYS = [*BY_PATH, *RACES, *APPROVALS, *COMMANDS]
