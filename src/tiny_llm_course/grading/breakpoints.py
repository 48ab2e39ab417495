"""breakpoint() where nobody can type: the process that grades goes on, and the verdict says so."""

import pdb
import sys
from pathlib import Path
from typing import Any

from ..course.places import name_of


class Breakpoints:
    """Takes the place of Python's debugger; `place` is the last line of the package that has called it."""

    def __init__(self, package: Path) -> None:
        self.place = ""
        self._package = package

    def install(self) -> None:
        """From now on breakpoint() and pdb.set_trace() only leave their place."""
        sys.breakpointhook = pdb.set_trace = self._stop

    def _stop(self, *args: Any, **kwargs: Any) -> None:
        caller = sys._getframe(1)
        file = Path(caller.f_code.co_filename)
        if file.is_relative_to(self._package):
            self.place = f"{name_of(file)}:{caller.f_lineno}"
