"""The command that brings missing files back. It stands on the standard library, for `doctor`."""

from collections.abc import Iterable
from pathlib import Path

from ..paths import LEARNER, ROOT, typed
from .git import ask_git


def restoring(files: Iterable[Path]) -> dict[str, list[str]]:
    """Commands, each with the files that it brings back.

    Git has a learner's file as it was last staged or committed, with what was written in it. `reset` has its stubs,
    which is all there is where git does not know the file.
    """
    by_git, by_reset = [], {}
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        task = _first_task(file)
        if task and ask_git("ls-files", "--error-unmatch", name).returncode:
            by_reset[task] = name
        else:
            by_git.append(name)
    found = {f"git restore {' '.join(typed(ROOT / name) for name in by_git)}": by_git} if by_git else {}
    return found | ({f"pdm run reset {' '.join(by_reset)}": list(by_reset.values())} if by_reset else {})


def _first_task(file: Path) -> str:
    """A task of which the file holds a part, so that `reset` brings back all of it; "" if there is none."""
    from ..course.registry import load_course

    if not file.is_relative_to(LEARNER):
        return ""
    path = file.relative_to(LEARNER).as_posix()
    tasks = (task.id for task in load_course().tasks() if task.target.file == path)
    return next(tasks, "")
