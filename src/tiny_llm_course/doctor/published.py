"""Whether what grades is as it was published: the tests, the harness, and what steers Python or pytest beside them.

Published is what the learner's history has in common with the branch that it follows, a teacher's copy perhaps; without
such a branch, what is committed. It stands on the standard library, for `doctor`.
"""

from collections.abc import Iterable
from pathlib import Path

from ..paths import COURSE, ROOT, TESTS
from .git import ask_git
from .strangers import BEFORE_PYPROJECT, SOURCES, STARTED_WITH_PYTHON

STEERING = ("conftest.py", "pyproject.toml", "tox.ini", "setup.cfg", *BEFORE_PYPROJECT)


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
