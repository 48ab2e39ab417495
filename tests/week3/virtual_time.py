"""An event loop whose clock advances only when nothing else is left to do, so seconds pass at once and reproducibly."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

MOST = 20_000  # iterations of the loop; a script takes some hundred


class _Selector(selectors.SelectSelector):
    """Selects what is ready; instead of waiting it advances the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.turns = 0.0, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if self.turns > MOST:
            raise _stuck("the event loop runs for ever without any time passing")
        if ready := super().select(0):
            return ready
        if timeout is None:
            raise _stuck("every task waits, and nothing is left that could wake one")
        self.now += timeout
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.virtual = _Selector()
        super().__init__(self.virtual)

    def time(self) -> float:
        return self.virtual.now


def play(script: Coroutine[Any, Any, Any], case: str = "") -> Any:
    """Return a script's result, run in such a loop. Remaining tasks are cancelled.

    Raises:
        CheckFailed: it would never end.
    """
    loop = _Loop()
    loop.set_exception_handler(lambda loop, context: None)  # a wrong program's remaining tasks are not worth a warning
    try:
        return loop.run_until_complete(script)
    except CheckFailed as error:
        raise CheckFailed(error.finding if error.finding.case else _with(error.finding, case)) from None
    finally:
        loop.virtual.turns = -MOST
        _end(loop)
        loop.close()


def now() -> float:
    """The time since the script began, in seconds."""
    return asyncio.get_running_loop().time()


def _end(loop: _Loop) -> None:
    """Cancel the remaining tasks, several times, as a program may catch the cancellation."""
    for _ in range(3):
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            try:
                loop.run_until_complete(asyncio.wait(left, timeout=1.0))
            except CheckFailed:
                return
    loop.run_until_complete(loop.shutdown_asyncgens())


def _stuck(headline: str) -> CheckFailed:
    return CheckFailed(Finding(Kind.STOPPED, headline))


def _with(finding: Finding, case: str) -> Finding:
    return Finding(finding.kind, finding.headline, finding.lines, case)
