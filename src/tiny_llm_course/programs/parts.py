"""The learner's parts of files in other languages, the lines between marks: exchanged in memory, no file is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_watch.faults import Fault

from ..course.entities import Target
from ..course.registry import load_course
from ..paths import LEARNER, PUBLISHED, SOLUTION
from ..source.edits import DoesNotApply
from ..source.languages import language_of_target
from ..source.package import files_of

exchanges: dict[tuple[str, str], dict[str, str]] = {}  # by package and file: the lines of each part, by its name


@contextmanager
def exchanged(package: str, target: Target, lines: str) -> Iterator[None]:
    """Let a package have these lines as the part that a target names, while the block runs."""
    parts = exchanges.setdefault((package, target.file), {})
    before = dict(parts)
    parts[target.name] = lines
    try:
        yield
    finally:
        parts.clear()
        parts.update(before)


def exchange(package: str, target: Target, lines: str) -> None:
    """Exchange a part permanently."""
    exchanges.setdefault((package, target.file), {})[target.name] = lines


def with_exchanges(package: str, file: str, text: str) -> str:
    """Return a file's text, the course's if it is given, with the exchanged parts; missing parts are skipped."""
    if package == LEARNER.name and (published := PUBLISHED.get(str(LEARNER / file))):
        text = published.decode()
    for name, lines in exchanges.get((package, file), {}).items():
        text = with_part(text, Target(file, name), lines)
    return text


def with_part(text: str, target: Target, lines: str) -> str:
    """Return a file's text with other lines as one of its parts, if it has that; later lines keep their numbers."""
    span = language_of_target(target).span(text, target.name)
    if span is None:
        return text
    all_lines = text.split("\n")
    all_lines[span[0] - 1 : span[1]] = [*lines.split("\n"), f"#line {span[1] + 1}"]
    return "\n".join(all_lines)


def solved_part(target: Target) -> str:
    """Return the solution's lines of a part."""
    text = (SOLUTION / target.file).read_text(encoding="utf-8")
    region = language_of_target(target).region(text, target.name)
    if region is None:
        raise DoesNotApply(f"there is no part {target}")
    return region


def below_package(source: Path) -> str:
    """Return a file's path below its package."""
    folder = next((each for each in source.parents if each.name == "tiny_llm"), source.parent)
    return source.relative_to(folder).as_posix()


class KernelFault(Exception):
    """A kernel's invalid operation; faults are compared by `about`, and `notes` are printed below."""

    def __init__(self, fault: Fault, about: str = "", notes: tuple[str, ...] = ()) -> None:
        super().__init__(fault.what)
        self.fault, self.about, self.notes = fault, about or fault.what, notes


class NotBuilt(Exception):
    """A kernel does not compile; the message is the compiler's."""


def use_published() -> None:
    """From now on load the course's given files in place of the learner's copies, in this process."""
    PUBLISHED.update(_given())


def differing() -> list[Path]:
    """Return the learner's copies of given files that differ from the course's."""
    copies = {Path(file): text for file, text in (PUBLISHED or _given()).items()}
    return [file for file, text in copies.items() if file.is_file() and file.read_bytes() != text]


def header_folders(file: Path) -> tuple[Path, ...]:
    """Return where a kernel's includes are: for a learner's, first the course's folder: no task writes a header."""
    beside = file.parent
    return (SOLUTION / beside.relative_to(LEARNER), beside) if beside.is_relative_to(LEARNER) else (beside,)


def _given() -> dict[str, bytes]:
    written = {task.target.file for task in load_course().tasks()}
    written |= {"README.md", "__init__.py"}  # the package's own file comes through another finder
    files = [file for file in files_of(SOLUTION) if file not in written]
    return {str(LEARNER / file): (SOLUTION / file).read_bytes() for file in files}
