"""What is built of a folder in which some parts are borrowed: a copy of its sources, with our lines in those places."""

import shutil
from pathlib import Path

from ..course.nouns import Task
from ..learner import progress
from ..paths import LEARNER
from ..programs.parts import solved_part, with_part

COPY = "sources"  # the folder of it, beside what is built


def lent_parts(package: Path, folder: Path) -> list[tuple[Task, str]]:
    """The borrowed tasks whose parts stand in a folder of a package, each with our lines."""
    if package != LEARNER:
        return []
    tasks = [task for task in progress.borrowed_tasks() if not task.target.is_python]
    return [(task, solved_part(task.target)) for task in tasks if (package / task.target.file).is_relative_to(folder)]


def sources(package: Path, folder: Path, out: Path) -> Path:
    """The folder to build in: itself, or a copy with what is borrowed. Its lines are still called those of the file."""
    lent = lent_parts(package, folder)
    if not lent:
        return folder
    copy = out / COPY
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for file in {package / task.target.file for task, _ in lent}:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        for task, lines in lent:
            if package / task.target.file == file:
                text = with_part(text, task.target, lines)
        place = copy / file.relative_to(folder)
        place.write_text(f'#line 1 "{file}"\n{text}', encoding="utf-8", errors="surrogateescape")
    return copy
