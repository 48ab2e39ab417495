"""What git knows of a checkout: how missing files come back, and which are not as they were published.

Published is what the learner's history has in common with the branch that it follows, a teacher's copy perhaps; without
such a branch, what is committed. It stands on the standard library, for `doctor`.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from ..paths import COURSE, LEARNER, ROOT, TESTS, typed
from .strangers import BEFORE_PYPROJECT, SOURCES, STARTED_WITH_PYTHON

STEERING = ("conftest.py", "pyproject.toml", "tox.ini", "setup.cfg", *BEFORE_PYPROJECT)


def ask_git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git in the checkout, to be told something; where there is no git, it fails."""
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess([], 1, "", "")


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


def steering() -> list[Path]:
    """The files that pytest or Python would be steered by, of those that there are."""
    folders = (ROOT, SOURCES, TESTS, *sorted(TESTS.glob("week*")))
    files = [folder / name for folder in folders for name in STEERING]
    files += [SOURCES / f"{name}.py" for name in STARTED_WITH_PYTHON]
    return [file for file in files if file.is_file()]


def changed(tests: Iterable[Path]) -> list[str]:
    """Which of some tests, of the harness's files and of those that steer it are not as published, by their paths.

    None where git knows of no commit.
    """
    files = [*tests, *steering()]
    names = [file.relative_to(ROOT).as_posix() for file in [*files, COURSE] if file.is_relative_to(ROOT)]
    common = ask_git("merge-base", "HEAD", "@{upstream}")
    commit = "HEAD" if common.returncode else common.stdout.strip()
    different = ask_git(
        "diff", "--name-only", "--relative", "-z", "--no-renames", commit, "--", *names, "pyproject.toml"
    )
    unknown = ask_git("ls-files", "--others", "-z", "--", *(name for name in names if (ROOT / name).is_file()))
    if different.returncode or unknown.returncode:
        return []
    return sorted({name for name in (different.stdout + unknown.stdout).split("\0") if name})
