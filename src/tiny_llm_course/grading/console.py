"""Opens a failing check's case: in Python's console on a terminal, printed elsewhere.

Started as `python -i -m tiny_llm_course.grading.console TASK CHECK ENDED`, by `pdm run case`, which has run the checks
within their limits before. Here the one check that failed is run again. Of one that ended its process (ENDED is 1) no
more is run than leads to its first call of the learner's code.
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

from ..course.findings import Finding
from ..course.nouns import Task
from ..course.places import name_of, tests_path
from ..course.registry import load_course
from ..paths import LEARNER, TESTS
from ..programs.packages import installed, program
from ..terminal.screen import say
from .exceptions import finding_of
from .failing_case import KeptCase, case_of, with_numbers, words_of
from .guard import Breakpoints
from .processes import OWN_SETTINGS
from .report import facts

INTERRUPTED = 130
CHANGES = "The check passed this time: your code does not do the same every time. What fails now and then: pdm run test"


class Reached(NotImplementedError):  # which no check takes for the error that it wants
    """The learner's program was called, and has not been run."""


class Catcher:
    """A pytest plugin that runs one check, and keeps what it raises."""

    def __init__(self, task: Task, check: str, ended: bool) -> None:
        self.task, self.check, self.ended = task, check, ended
        self.case: KeptCase | None = None
        self.finding: Finding | None = None

    def pytest_sessionstart(self) -> None:
        """Stop nowhere before the console is open; pytest itself puts pdb back."""
        Breakpoints(LEARNER).install()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the one check."""
        items[:] = [item for item in items if item.name == self.check][:1]

    @pytest.hookimpl(wrapper=True, trylast=True)  # the innermost
    def pytest_runtest_call(self) -> Generator[None]:
        """Do not run what ends the process."""
        with contextlib.ExitStack() as stack:
            if self.ended:
                stack.enter_context(installed(self.task.program, _reached))
            yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Keep it."""
        if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
            error = call.excinfo.value
            self.finding = None if isinstance(error, Reached) else finding_of(error, LEARNER)
            self.case = case_of(error, self.task)


def _reached(*args: Any, **kwargs: Any) -> None:
    raise Reached


def catch(task: Task, check: str, ended: bool) -> Catcher:
    """Run the check; what the learner's code prints meanwhile is for later, when its functions are called by hand."""
    catcher = Catcher(task, check, ended)
    args = [str(tests_path(task)), f"--task={task.id}", *OWN_SETTINGS]
    stdin, hook = sys.stdin, sys.breakpointhook
    try:
        with open(os.devnull, encoding="utf-8") as nobody, contextlib.redirect_stdout(io.StringIO()) as prints:
            sys.stdin = nobody
            with contextlib.redirect_stderr(prints):
                quiet = ("-s", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler")
                status = pytest.main([*args, *quiet], plugins=[catcher])
    finally:
        sys.stdin, sys.breakpointhook = stdin, hook
    if status == pytest.ExitCode.INTERRUPTED:
        say("interrupted", err=True)
        os._exit(INTERRUPTED)  # past the console
    return catcher


def show(caught: Catcher, typing: bool) -> dict[str, Any]:
    """Say what there is to look at; the names for the console."""
    if caught.finding:
        say(f"    {caught.finding.headline}")
        for fact in facts(caught.finding):
            fact()
    elif not caught.ended:
        say(CHANGES)
    elif caught.case:
        say("    Your code is not called here. These are the first inputs of that check:")
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
    """Where a program stands: the learner's own, or the test's function that calls it."""
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
    except BrokenPipeError:  # whoever read it has gone, and there is nothing to flush it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
