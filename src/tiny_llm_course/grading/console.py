"""Open a failing check's case: in Python's console on a terminal, printed elsewhere.

`pdm run case` runs the checks within their limits, then this module, which runs the failed check again. If that check
ended its process (ENDED is 1), it stops at the first call of the learner's code.
"""

import contextlib
import inspect
import io
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from ..course.entities import Task
from ..course.file_paths import name_of, tests_path
from ..course.findings import Finding
from ..course.registry import load_course
from ..paths import LEARNER, TESTS
from ..programs.packages import installed, program
from ..terminal.screen import say
from .exceptions import finding_of
from .failing_case import KeptCase, case_of, with_numbers, words_of
from .guard import Breakpoints
from .processes import OWN_SETTINGS
from .report import facts
from .reporter import of_check

INTERRUPTED = 130
CHANGES = "The check passed this time: your code does not do the same every time. To see it fail again: pdm run test"


class Reached(NotImplementedError):
    """The learner's program was called, and has not been run. No check expects a NotImplementedError."""


class Catcher:
    """A pytest plugin that runs one check and keeps what it raises."""

    def __init__(self, task: Task, check: str, ended: bool) -> None:
        self.task, self.check, self.ended = task, check, ended
        self.case: KeptCase | None = None
        self.finding: Finding | None = None

    def pytest_sessionstart(self) -> None:
        """Disable breakpoints before the console is open; pytest itself restores pdb."""
        Breakpoints(LEARNER).install()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep only the one check."""
        items[:] = [item for item in items if item.name == self.check][:1]

    @pytest.hookimpl(wrapper=True, trylast=True)  # the innermost
    def pytest_runtest_call(self) -> Generator[None]:
        """Replace a program that ends the process."""
        with contextlib.ExitStack() as stack:
            if self.ended:
                stack.enter_context(installed(self.task.program, _reached))
            yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Keep the finding and the case."""
        if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
            error = call.excinfo.value
            self.finding = None if isinstance(error, Reached) else of_check(finding_of(error, LEARNER), item)
            self.case = case_of(error, self.task)


def _reached(*args: Any, **kwargs: Any) -> None:
    raise Reached


def catch(task: Task, check: str, ended: bool) -> Catcher:
    """Run the check, discarding prints of the learner's code."""
    catcher = Catcher(task, check, ended)
    quiet = ("-s", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler")
    args = [str(tests_path(task)), f"--task={task.id}", *OWN_SETTINGS, *quiet]
    stdin, hook = sys.stdin, sys.breakpointhook
    try:
        with open(os.devnull, encoding="utf-8") as empty, contextlib.redirect_stdout(io.StringIO()) as prints:
            sys.stdin = empty
            with contextlib.redirect_stderr(prints):
                status = pytest.main(args, plugins=[catcher])
    finally:
        sys.stdin, sys.breakpointhook = stdin, hook
    if status == pytest.ExitCode.INTERRUPTED:
        say("interrupted", err=True)
        os._exit(INTERRUPTED)  # skips the console of `python -i`
    return catcher


def show(caught: Catcher, typing: bool) -> dict[str, Any]:
    """Print what there is to look at; return the names for the console."""
    if caught.finding:
        say(f"    {caught.finding.headline}")
        for fact in facts(caught.finding):
            fact()
    elif not caught.ended:
        say(CHANGES)
    elif caught.case:
        say("    Your code is not run here, as it ended the process. These are the first inputs of that check:")
    if not (case := caught.case):
        return {}
    names = dict(case.names)
    if names.get("program") is _reached:
        names["program"] = program(caught.task.program)
    if case.source:
        place, *lines = case.source
        say()
        say(f"  The check, {place}")
        for line in lines:
            say(f"    {line}", cut=True)
    say()
    if typing:
        widest = max(map(len, [*case.listed, "program"]))
        for name in case.listed:
            say(f"  {name:<{widest}}  {words_of(names[name])}", cut=True)
        say(f"  {'program':<{widest}}  {_where(names['program'])}", cut=True)
        say()
        again = f"To see it again: {case.call}. " if case.call else ""
        say(f"{again}A breakpoint() in your code stops there now. Back to the shell: Ctrl-D")
    else:
        for line in with_numbers(case):
            say(f"  {line}")
    return names


def _where(called: Callable[..., Any]) -> str:
    """Return where a program is defined: the learner's file, or the test's function that calls it."""
    try:
        file, line = inspect.getsourcefile(called) or "", inspect.getsourcelines(called)[1]
    except (OSError, TypeError):
        return words_of(called)
    path = Path(file)
    if path.is_relative_to(LEARNER):
        return f"yours, {name_of(path)}:{line}"
    return f"{name_of(path)}:{line}, which calls yours" if path.is_relative_to(TESTS) else words_of(called)


def main(task: str, check: str, ended: str) -> None:
    """Show the case, and leave its names, and no others, to the console."""
    names = show(catch(load_course().task(task), check, ended == "1"), bool(sys.flags.interactive))
    console = vars(sys.modules["__main__"])
    for name in [name for name in console if not name.startswith("__")]:
        del console[name]
    console.update(names)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BrokenPipeError:  # the reader has ended; Python would complain when it flushes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
