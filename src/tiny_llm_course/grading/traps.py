"""Forbidden calls: a task must not be solved by calling the operator that it is compared with.

Each forbidden function is replaced by a wrapper that looks who is calling. The tests may call it, and so may MLX
itself; the learner's files may not, while a task that forbids it is graded.
"""

import os
import pkgutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..course.findings import CheckFailed, Finding, Kind
from ..paths import COURSE


class Traps:
    """The traps of one grading process.

    `armed` holds the names forbidden right now; `hits` keeps what was caught, so that no `except` can hide it.
    """

    def __init__(self, guarded: Iterable[Path]) -> None:
        self.guarded: tuple[str, ...] = ()
        for path in guarded:
            self.guard(path)
        self.armed: frozenset[str] = frozenset()
        self.hits: list[CheckFailed] = []
        self._set: set[str] = set()

    def guard(self, path: Path) -> None:
        """Watch another file or folder."""
        # The separator keeps src/tiny_llm apart from src/tiny_llm_course.
        self.guarded += (str(path) if path.suffix else f"{path}{os.sep}",)

    def close(self, folder: Path) -> None:
        """Forbid the watched files to run or read what is in a folder; the course's own code may."""
        inside, own = f"{folder}{os.sep}", f"{COURSE}{os.sep}"

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event != "open" or not isinstance(args[0], str) or not os.path.abspath(args[0]).startswith(inside):
                return
            frame = sys._getframe(1)
            while frame is not None and not frame.f_code.co_filename.startswith(own):
                if frame.f_code.co_filename.startswith(self.guarded):
                    line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                    headline = f"{line} uses {folder.parent.name}/, where the answers are: write it yourself"
                    self.hits.append(CheckFailed(Finding(Kind.FORBIDDEN, headline)))
                    raise self.hits[-1]
                frame = frame.f_back  # type: ignore[assignment]

        sys.addaudithook(hook)

    def set(self, names: Iterable[str]) -> None:
        """Wrap the functions named like `mlx.core.softmax`. Call it before the learner's files are imported."""
        for name in names:
            if name not in self._set:
                self._set.add(name)
                module_name, attribute = name.rsplit(".", 1)
                holder = pkgutil.resolve_name(module_name)
                original = getattr(holder, attribute)
                if isinstance(original, type):  # stays a class, which the learner may derive from
                    original.__init__ = self._wrapper(name, original.__init__)  # type: ignore[misc]
                else:
                    setattr(holder, attribute, self._wrapper(name, original))

    def _wrapper(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(*args: Any, **kwargs: Any) -> Any:
            if name in self.armed:
                self._look_who_calls(name)
            return original(*args, **kwargs)

        trapped.__doc__ = original.__doc__
        return trapped

    def _look_who_calls(self, name: str) -> None:
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename.startswith(self.guarded):
                spoken = name.replace("mlx.core.", "mx.")
                line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                headline = f"{line} calls {spoken}, which this task must do without"
                self.hits.append(CheckFailed(Finding(Kind.FORBIDDEN, headline)))
                raise self.hits[-1]
            frame = frame.f_back  # type: ignore[assignment]
