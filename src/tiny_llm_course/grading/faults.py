"""What a kernel does wrong, as a finding: its line, what it touches, and the code there."""

from pathlib import Path

from memory_watch.faults import Line

from ..course.findings import Finding, Kind, shortened
from ..paths import ROOT
from ..programs.kernel_faults import KernelFault


def finding_of_fault(error: KernelFault, case: str, package: Path) -> Finding:
    """The finding, with the package's own lines on the way to the fault."""
    fault = error.fault
    own = [line for line in fault.lines if line.file.is_relative_to(package)]
    own = [line for line in own if line.file.suffix != ".h"] or own  # and not what a given header does for it
    place = f"{_place(own[-1])} " if own else ""
    headline, frames = shortened(f"{place}{fault.what}"), tuple(dict.fromkeys(map(_shown, own)))
    if fault.what.startswith("does not compile"):
        return Finding(Kind.NOT_BUILT, headline, frames[-1:], place=place.strip())
    who = "thread" if own and own[-1].file.suffix == ".metal" else "chunk"
    lines = (f"the other {who} is at {_shown(fault.other)}",) if fault.other else ()
    return Finding(Kind.MEMORY, headline, (*error.notes, *lines), case=case, frames=frames)


def _place(line: Line) -> str:
    file = line.file.relative_to(ROOT) if line.file.is_relative_to(ROOT) else line.file
    return f"{file.as_posix()}:{line.number}"


def _shown(line: Line) -> str:
    try:
        code = line.file.read_text(encoding="utf-8", errors="replace").splitlines()[line.number - 1].strip()
    except (OSError, IndexError):
        code = ""
    return shortened(f"{_place(line)}  {code}".rstrip())
