"""Workspaces, hidden tests and their grades, for task 7.6.1."""

import importlib.util
import os
import py_compile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
HIDDEN = """\
from add import add

def test_small():
    assert add(1, 2) == 3

def test_negative():
    assert add(-1, -2) == -3
"""
BOTH = ("test_small", "test_negative")
SKIPS = "import unittest\n\ndef add(a, b):\n    raise unittest.SkipTest('not today')\n"
REPORT = '{"test_small": "passed", "test_negative": "passed"}'
EXITS = "import os\nos._exit(0)\n"
FORGES = f"import os\nprint('\\n0123456789abcdef0123456789abcdef {REPORT}\\n{REPORT}', flush=True)\nos._exit(0)\n"
PASSES = "def test_small():\n    pass\n\ndef test_negative():\n    pass\n"
# Passes if nothing of the workspace is in the way of the tests, and no link was copied.
LOOKS = """\
import json, os, string
from add import add

def test_library():
    assert json.loads("3") == 3 and string.digits == "0123456789"

def test_files():
    found = sorted(os.path.join(at, name) for at, _, names in os.walk(".") for name in names if "__" not in at)
    assert found == ["./add.py", "./deep/er/data.txt"], found

def test_data():
    assert open("deep/er/data.txt").read() == "42"
"""
# Changes whatever it can reach.
SPOILS = """\
import os
from add import add

def test_spoils():
    for name in os.listdir("."):
        open(name, "w").close()
    open("new.txt", "w").close()
    assert add(1, 2) == 3
"""


class Scene(NamedTuple):
    """A workspace, hidden tests, and what a right grade says of them."""

    files: dict[str, str]
    tests: str
    verdict: str
    failed: tuple[str, ...] = ()
    also: Callable[[Path], object] = lambda folder: None  # what else is done to the workspace
    seconds: float = 10.0


def _links(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent)
    (folder / "secret.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "lost").symlink_to("nowhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _stale(folder: Path) -> None:
    """Leave bytecode of a right module beside a wrong one, which Python uses without a look at the source."""
    source, right = folder / "add.py", folder.parent / "right.py"
    right.write_text(RIGHT, encoding="utf-8")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(right), importlib.util.cache_from_source(source), invalidation_mode=unchecked)


DEEP = {"add.py": RIGHT, "deep/er/data.txt": "42"}
SCENES = {
    "all right": Scene({"add.py": RIGHT}, HIDDEN, "passed"),
    "all wrong": Scene({"add.py": WRONG}, HIDDEN, "failed", BOTH),
    "one wrong": Scene({"add.py": "def add(a, b):\n    return abs(a + b)\n"}, HIDDEN, "failed", BOTH[1:]),
    "an error": Scene({"add.py": "def add(a, b):\n    return a + c\n"}, HIDDEN, "failed", BOTH),
    "no such module": Scene({"sub.py": RIGHT}, HIDDEN, "failed", ("import",)),
    "a syntax error": Scene({"add.py": "def add(a, b:\n"}, HIDDEN, "failed", ("import",)),
    "sys.exit(0) in the module": Scene({"add.py": "import sys\nsys.exit(0)\n"}, HIDDEN, "failed", ("import",)),
    "sys.exit(0) in the function": Scene(
        {"add.py": "import sys\n\ndef add(a, b):\n    sys.exit(0)\n"}, HIDDEN, "failed", BOTH
    ),
    "os._exit(0)": Scene({"add.py": EXITS}, HIDDEN, "no report"),
    "a report of its own": Scene({"add.py": FORGES}, HIDDEN, "no report"),
    "no tests": Scene({"add.py": RIGHT}, "from add import add\n", "no tests"),
    "all skipped": Scene({"add.py": SKIPS}, HIDDEN, "skipped", BOTH),
    "one skipped": Scene(
        {"add.py": SKIPS + "    return a + b\n"}, HIDDEN.replace("add(1, 2)", "3"), "skipped", BOTH[1:]
    ),
    "one skipped, one wrong": Scene({"add.py": SKIPS}, HIDDEN.replace("add(1, 2)", "2"), "failed", BOTH),
    "an endless loop": Scene({"add.py": "while True:\n    pass\n"}, HIDDEN, "limit", seconds=0.6),
    "a thread that goes on": Scene(
        {"add.py": f"import threading, time\nthreading.Thread(target=time.sleep, args=(9,)).start()\n{RIGHT}"},
        HIDDEN,
        "passed",
        seconds=3.0,
    ),
    "the visible tests are gone": Scene({"add.py": WRONG, "test_add.py": ""}, HIDDEN, "failed", BOTH),
    "tests of the same name": Scene(
        {"add.py": WRONG, "hidden_tests.py": PASSES, "tests.py": PASSES, "test_hidden.py": PASSES},
        HIDDEN,
        "failed",
        BOTH,
    ),
    "conftest and sitecustomize": Scene(
        {"add.py": WRONG, "conftest.py": EXITS, "sitecustomize.py": EXITS, "usercustomize.py": EXITS},
        HIDDEN,
        "failed",
        BOTH,
    ),
    "modules of the library's names": Scene(
        {**DEEP, "json/__init__.py": EXITS, "string.py": EXITS}, LOOKS, "failed", ("test_files",)
    ),
    "links": Scene(DEEP, LOOKS, "passed", also=_links),
    "a pipe": Scene(DEEP, LOOKS, "passed", also=_pipe),
    "bytecode of another source": Scene({"add.py": WRONG}, HIDDEN, "failed", BOTH, also=_stale),
    "much output": Scene({"add.py": f"print('dog ' * 50_000)\n{RIGHT}"}, HIDDEN, "passed"),
    "no output left": Scene({"add.py": f"import sys\nprint(1)\nsys.stdout.close()\n{RIGHT}"}, HIDDEN, "passed"),
    "tests that write": Scene({"add.py": RIGHT}, SPOILS, "passed"),
}


def laid_out(scene: Scene, parent: Path) -> Path:
    """Write a scene's workspace, with a file beside it that is none of the agent's business."""
    folder = parent / "work"
    folder.mkdir()
    (parent / "secret.txt").write_text("secret", encoding="utf-8")
    for name, text in scene.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    scene.also(folder)
    return folder


def listing(folder: Path) -> dict[str, Any]:
    """Return what a folder contains: the content of files, the target of links."""
    found: dict[str, Any] = {}
    for at, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(at, name)
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = os.readlink(path)
            else:
                found[key] = path.read_bytes() if path.is_file() else "a folder or a pipe"
    return found


RESULTS = {"p": "pass", "f": "assert False", "s": "raise SkipTest", "e": "raise KeyError"}


def mixed(letters: str) -> tuple[str, str, tuple[str, ...]]:
    """Return tests of which each has one of RESULTS, with the verdict and the names of those that do not pass."""
    lines = ["from unittest import SkipTest"]
    lines += [f"def test_{i}():\n    {RESULTS[letter]}" for i, letter in enumerate(letters)]
    bad = tuple(f"test_{i}" for i, letter in enumerate(letters) if letter != "p")
    failed, verdict = set(letters) & {"f", "e"}, "skipped" if bad else "passed"
    return "\n".join(lines), "failed" if failed else verdict if letters else "no tests", bad
