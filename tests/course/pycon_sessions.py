"""Runs the sessions of a page and says which functions of the solution each of their examples has called.

A program of its own, `python pycon_sessions.py PAGE OUT`, with the solution's folder in PYTHONPATH. The page holds
nothing but its sessions, every line where it was; OUT gets a list of (line, file, function) as JSON. It ends as
doctest does.
"""

import doctest
import inspect
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tiny_llm_course.paths import SOLUTION

PACKAGE = f"{SOLUTION}/"
Calls = set[tuple[int, str, str]]  # line of the example, file in the package, qualified name of the function


class Watching(doctest.DocTestRunner):
    """Knows which example is being run."""

    def __init__(self) -> None:
        super().__init__()
        self.line = 0
        self.calls: Calls = set()

    def report_start(self, out: Any, test: doctest.DocTest, example: doctest.Example) -> None:
        """Note the line, counted from 1."""
        self.line = example.lineno + 1

    def seen(self, frame: FrameType, event: str, argument: object) -> None:
        """Called by Python for every call of anything; the body of a class, which an import runs, is no function."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_flags & inspect.CO_OPTIMIZED:
            self.calls.add((self.line, code.co_filename.removeprefix(PACKAGE), code.co_qualname))


def main(page: Path, out: Path) -> int:
    """Run them."""
    runner = Watching()
    test = doctest.DocTestParser().get_doctest(page.read_text(encoding="utf-8"), {}, page.name, str(page), 0)
    sys.setprofile(runner.seen)
    failed = runner.run(test).failed
    sys.setprofile(None)
    out.write_text(json.dumps(sorted(runner.calls)), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
