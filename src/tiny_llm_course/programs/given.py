"""Given files, which no task writes: grading takes the course's, whatever the learner's copies hold."""

from pathlib import Path

from ..course.registry import load_course
from ..paths import LEARNER, PUBLISHED, SOLUTION
from ..source.package import files_of


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
