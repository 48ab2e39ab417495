"""Describe how a process that ran a learner's code ended: by what, and at which of the learner's lines."""

import linecache
import re
import signal
from pathlib import Path
from typing import NamedTuple

from ..course.file_paths import files_that_call, module_of, module_path
from ..course.findings import Finding, Kind, shortened
from ..paths import COURSE, ROOT, TESTS

SIGNALS = {
    "SIGSEGV": "a memory fault in native code",
    "SIGBUS": "a memory fault in native code",
    "SIGABRT": "native code aborted",
    "SIGFPE": "native code divided by zero",
    "SIGILL": "an instruction that this processor does not have",
    "SIGKILL": "sent from outside, most often when memory runs out",
}
ENDED = "your code ended the tests (exit code {}), which is not a way to pass them"
ENDED_UNSEEN = "the process ended before its tests (exit code {}), which is not a way to pass them"
COMPUTING = (COURSE / "testkit", TESTS)
LAST_WORDS = 2  # lines of what native code wrote


class Trace(NamedTuple):
    """What faulthandler wrote: the graded package's lines at the end, innermost last."""

    frames: tuple[str, ...] = ()  # as in a finding
    importing: str = ""  # the last of them at module level: `src/tiny_llm/basics.py:12`
    computing: bool = False  # none: a check was evaluating what the learner's code had returned


def trace_of(text: str, package: Path) -> Trace:
    """Parse faulthandler's dump of all threads: the running one counts, or else the oldest in the package."""
    # It escapes what is not ASCII in paths: \xe9, \u6a21.
    text = re.sub(r"\\(?:x\w{2}|u\w{4}|U\w{8})", _unescaped, text)
    threads = re.split(r"^(?=(?:Current thread|Thread) )", text, flags=re.MULTILINE)
    # MLX computes in threads of its own while the learner's line waits in another.
    threads = [t for t in threads if t.startswith("Current")] + [t for t in threads[::-1] if t.startswith("Thread")]
    given = files_that_call(package)
    for thread in threads:
        found = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', thread, re.MULTILINE)[::-1]
        lines = [(Path(file), number, name) for file, number, name in found]
        own = [line for line in lines if line[0].is_relative_to(package) and line[0] not in given]
        if own:
            places = [f"{file.relative_to(ROOT).as_posix()}:{number}" for file, number, _ in own]
            code = [linecache.getline(str(file), int(number)).strip() for file, number, _ in own]
            modules = [place for place, (_, _, name) in zip(places, own, strict=True) if name == "<module>"]
            frames = tuple(shortened(f"{place}  {line}".rstrip()) for place, line in zip(places, code, strict=True))
            return Trace(frames, modules[-1] if modules else "")
    innermost = re.search(r'^  File "(.*)", line', "".join(threads[:1]), re.MULTILINE)
    file = Path(innermost[1] if innermost else "")
    return Trace(computing=any(folder in file.parents for folder in COMPUTING))


def cause_of_exit(status: int, by_python: bool) -> str:
    """Return why a process ended, by its exit status as in `Popen`; `by_python`: Python is known to have ended it."""
    if status < 0:
        return f"the process crashed: {signal_words(-status)}"
    return (ENDED if by_python else ENDED_UNSEEN).format(status)


def signal_words(number: int) -> str:
    """Return `SIGSEGV, a memory fault in native code`."""
    try:
        name = signal.Signals(number).name
    except ValueError:  # one of those between SIGRTMIN and SIGRTMAX
        name = f"signal {number}"
    return f"{name}, {SIGNALS[name]}" if name in SIGNALS else name


def death(why: str, trace: Trace, check: str, wrote: str = "") -> Finding:
    """Return the finding for the task whose check was running; `wrote` is native code's output meanwhile."""
    lines = [line.strip() for line in wrote.splitlines() if line.strip()][-LAST_WORDS:]
    shown = [f"wrote     {shortened(line)}" for line in lines]
    if trace.computing:
        shown.insert(0, "after your code had returned, while its result was evaluated")
    return Finding(Kind.STOPPED, why, (*shown, *[f"check     {check}"] * bool(check)), frames=trace.frames, check=check)


def death_of_import(why: str, trace: Trace, module: str, package: Path) -> tuple[str, Finding]:
    """Return the module in whose own lines an import of `module` ended, and the finding for all that uses it."""
    place = trace.importing or module_path(package, module).relative_to(ROOT).as_posix()
    file = place.partition(":")[0]
    headline = f"{file} cannot be imported: {why}"
    return module_of(package, ROOT / file), Finding(Kind.NO_IMPORT, headline, frames=trace.frames, place=place)


def _unescaped(escape: re.Match[str]) -> str:
    try:
        return chr(int(escape[0][2:], 16))
    except (ValueError, OverflowError):  # a backslash in the path itself
        return escape[0]
