"""What the learner's code must not read or import: our solution, the tests, the harness, libraries that do the work.

An audit hook of Python's sees files and imports whatever they are reached by: a path in bytes, a symbolic link, another
folder to work in, `runpy`, `importlib`. What native code opens by itself is not seen.
"""

import os
import re
import sys
import traceback
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from ..course.nouns import Task
from ..paths import LEARNER, SOLUTION, TESTS
from ..programs import borrowing
from ..source.imports import Imports
from .traps import Traps

ANSWERS = (".py", ".pyc", ".npz")  # of the tests: a tokenizer's table is for the learner's code to read
STARTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
MOVES = ("os.link", "os.rename", "os.symlink", "os.chdir")
# The solution's folder among the words of another program, and not in the name of a folder around the checkout.
NAMED = re.compile(rf"(?<![\w./-]){SOLUTION.parent.name}\b|{re.escape(str(SOLUTION.parent))}\b")
STANDARD = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")
SHOWS = traceback.extract_stack.__code__.co_filename  # it reads the lines of a stack, ours among them
PACKAGES = ("site-packages", "dist-packages")  # folders of others in it


class Closed:
    """Watches what the learner's files do from now on; `imported` has what they import while they are imported."""

    def __init__(self, traps: Traps, imports: Imports) -> None:
        self.imported: dict[str, list[str]] = {}
        self._traps, self._imports = traps, imports
        self._faults: dict[str, str] = {}
        sys.addaudithook(self._hook)

    def fault(self, task: Task) -> str:
        """What a task's files import that they must not, in a line; "" if there is nothing."""
        if task.id not in self._faults:
            self._faults[task.id] = self._imports.fault(task, self.imported)
        return self._faults[task.id]

    def forget(self) -> None:
        """The learner's files are others now."""
        self.imported.clear()
        self._faults.clear()

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "import":
            self._sees_import(args[0])
        elif event == "open" or event in MOVES:
            if folder := _answers_in(args[0]):
                self._refuse(folder)
        elif event in STARTS and NAMED.search(repr(args)):
            self._refuse(SOLUTION.parent)

    def _refuse(self, folder: Path) -> None:
        """Raise if it is a line of the learner's that wants what is in a folder."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if self._traps.watches(file):
                line = f"{Path(file).name}:{frame.f_lineno}"
                raise self._traps.caught(f"{line} uses {folder.name}/, where the answers are: write it yourself")
            if folder == TESTS and file == SHOWS:  # for a learner who looks for a mistake, or while PyTorch is imported
                return
            # Meant for the learner: what is borrowed, and what it imports itself; what we look up here.
            if file in (borrowing.__file__, __file__) or file.startswith(f"{SOLUTION}{os.sep}"):
                return
            frame = frame.f_back

    def _sees_import(self, name: str) -> None:
        """Note what a line of the learner's imports, perhaps by way of the standard library."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and _passes_on(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or not self._traps.watches(frame.f_code.co_filename):
            return
        file = Path(os.path.relpath(frame.f_code.co_filename, LEARNER)).as_posix()
        if not self._imports.allows(name, file):
            self.imported.setdefault(file, []).append(name)
            self._faults.clear()


def _answers_in(path: Any) -> Path | None:
    """The folder of answers that a path leads to."""
    if isinstance(path, int) or not path:
        return None
    real = os.path.realpath(os.fsdecode(path))
    if f"{real}{os.sep}".startswith(f"{SOLUTION.parent}{os.sep}"):
        return SOLUTION.parent
    return TESTS if real.startswith(f"{TESTS}{os.sep}") and real.endswith(ANSWERS) else None


@cache
def _passes_on(file: str) -> bool:
    """Whether a file is of Python's own library, or stands for none: what it imports, somebody else wants."""
    return file.startswith("<") or (
        os.path.realpath(file).startswith(STANDARD) and not set(PACKAGES) & set(Path(file).parts)
    )
