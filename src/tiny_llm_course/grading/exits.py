"""How a process that ran a learner's code came to its end, in words: by what, and at which of the learner's lines."""

import dataclasses
import linecache
import re
import signal
from pathlib import Path

from ..course.findings import Finding, Kind, shortened
from ..course.places import files_that_call, module_of, module_path
from ..paths import COURSE, ROOT, TESTS

SIGNALS = {
    "SIGSEGV": "a memory fault in native code",
    "SIGBUS": "a memory fault in native code",
    "SIGABRT": "native code gave up",
    "SIGFPE": "native code divided by zero",
    "SIGILL": "an instruction that this processor does not have",
    "SIGKILL": "which comes from outside, most often when memory runs out",
}
ENDED = "your code ended the tests (exit code {}), which is not a way to pass them"
ENDED_UNSEEN = "the process ended before its tests (exit code {}), which is not a way to pass them"
COMPUTING = (COURSE / "testkit", TESTS)
LAST_WORDS = 2  # lines of what native code wrote


@dataclasses.dataclass(frozen=True)
class Trace:
    """What faulthandler wrote: the graded package's lines on the way to the end, innermost last."""

    frames: tuple[str, ...] = ()  # as a finding has them
    importing: str = ""  # the last of them that is not in a function: `src/tiny_llm/basics.py:12`
    computing: bool = False  # it was in none of them: a check was computing what the learner's code had returned


def trace_of(text: str, package: Path) -> Trace:
    """Read faulthandler's trace of all threads. The thread that was running counts if it was in the package, else the
    oldest one that was: MLX computes in threads of its own, while the learner's line waits in another.
    """
    # Its paths are in ASCII: what is not stands there as \xe9 or \u6a21.
    text = re.sub(r"\\(?:x\w{2}|u\w{4}|U\w{8})", _unescaped, text)
    threads = re.split(r"^(?=(?:Current thread|Thread) )", text, flags=re.MULTILINE)
    threads = [t for t in threads if t.startswith("Current")] + [t for t in threads[::-1] if t.startswith("Thread")]
    given = files_that_call(package)
    for thread in threads:
        found = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', thread, re.MULTILINE)[::-1]
        lines = [(Path(file), number, name) for file, number, name in found]
        own = [line for line in lines if line[0].is_relative_to(package) and line[0] not in given]
        if own:
            places = [f"{file.relative_to(ROOT).as_posix()}:{number}" for file, number, _ in own]
            # The code is missing if the file has changed since.
            code = [linecache.getline(str(file), int(number)).strip() for file, number, _ in own]
            modules = [place for place, (_, _, name) in zip(places, own, strict=True) if name == "<module>"]
            frames = tuple(shortened(f"{place}  {line}".rstrip()) for place, line in zip(places, code, strict=True))
            return Trace(frames, modules[-1] if modules else "")
    innermost = re.search(r'^  File "(.*)", line', "".join(threads[:1]), re.MULTILINE)
    file = Path(innermost[1] if innermost else "")
    return Trace(computing=any(folder in file.parents for folder in COMPUTING))


def cause_of_exit(status: int, by_python: bool) -> str:
    """Why a process is gone, by its exit status as `Popen` has it; `by_python` if Python is known to have ended it."""
    if status < 0:
        return f"the process crashed: {signal_words(-status)}"
    return (ENDED if by_python else ENDED_UNSEEN).format(status)


def signal_words(number: int) -> str:
    """`SIGSEGV, a memory fault in native code`."""
    try:
        name = signal.Signals(number).name
    except ValueError:  # one of those between SIGRTMIN and SIGRTMAX
        name = f"signal {number}"
    return f"{name}, {SIGNALS[name]}" if name in SIGNALS else name


def death(why: str, trace: Trace, check: str, wrote: str = "") -> Finding:
    """The finding for the task whose check was running. `wrote` is what the process wrote meanwhile, past Python."""
    lines = [line.strip() for line in wrote.splitlines() if line.strip()][-LAST_WORDS:]
    told = [f"wrote     {shortened(line)}" for line in lines]
    if trace.computing:
        told.insert(0, "after your code had returned, while its result was computed")
    return Finding(Kind.STOPPED, why, (*told, *[f"check     {check}"] * bool(check)), frames=trace.frames, check=check)


def death_of_import(why: str, trace: Trace, module: str, package: Path) -> tuple[str, Finding]:
    """The module at whose own lines an import of `module` ended, and the finding for all that uses it."""
    place = trace.importing or module_path(package, module).relative_to(ROOT).as_posix()
    file = place.partition(":")[0]
    return module_of(package, ROOT / file), Finding(
        Kind.NO_IMPORT, f"{file} cannot be imported: {why}", frames=trace.frames, place=place
    )


def _unescaped(escape: re.Match[str]) -> str:
    try:
        return chr(int(escape[0][2:], 16))
    except (ValueError, OverflowError):  # a backslash of the path's own
        return escape[0]
