"""Git's view of a checkout: how to restore missing files, and which differ from the published ones (the merge base)."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..paths import COURSE, LEARNER, ROOT, SOLUTION, TESTS, WATCHERS, shell_path
from .shadowing import BEFORE_PYPROJECT, SOURCES, STARTED_WITH_PYTHON

STEERING = ("conftest.py", "pyproject.toml", "tox.ini", "setup.cfg", *BEFORE_PYPROJECT)


def differ(words: str, files: Sequence[str], named: int | None = None) -> str:
    """Return the sentence on files that differ from the published ones, which names all or the first `named`."""
    more = len(files) - len(files[:named])
    listed = ", ".join(files[:named]) + f" and {more} more" * bool(more)
    return f"These {words} differ from the published ones: {listed}"


def ask_git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a read-only git command in the checkout; without git, or after 30 s, the result has exit code 1."""
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess([], 1, "", "")


def restoring(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return commands with their files: `git restore`, or `reset` (stubs only) for those that git does not track."""
    from ..course.registry import load_course

    by_git, by_reset = [], {}
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        tasks = load_course().tasks() if file.is_relative_to(LEARNER) else ()
        task = next((task.id for task in tasks if LEARNER / task.target.file == file), "")
        if task and ask_git("ls-files", "--error-unmatch", name).returncode:
            by_reset[task] = name
        else:
            by_git.append(name)
    found = {f"git restore {' '.join(shell_path(ROOT / name) for name in by_git)}": by_git} if by_git else {}
    return found | ({f"pdm run reset {' '.join(by_reset)}": list(by_reset.values())} if by_reset else {})


def steering() -> list[Path]:
    """Return the existing files that configure or run code in pytest or Python."""
    folders = (ROOT, SOURCES, TESTS, *sorted(TESTS.glob("week*")))
    files = [folder / name for folder in folders for name in STEERING]
    files += [SOURCES / f"{name}.py" for name in STARTED_WITH_PYTHON]
    return [file for file in files if file.is_file()]


def changed(tests: Iterable[Path]) -> list[str]:
    """Return which tests, harness files and configuration differ from the published ones; [] if git knows no commit."""
    files = [*tests, *steering()]
    folders = [COURSE, *WATCHERS, SOLUTION]
    names = [file.relative_to(ROOT).as_posix() for file in [*files, *folders] if file.is_relative_to(ROOT)]
    found = (ask_git("merge-base", "HEAD", branch) for branch in ("upstream/main", "@{upstream}"))
    commit = next((common.stdout.strip() for common in found if not common.returncode), "HEAD")
    options = ("--name-only", "--relative", "-z", "--no-renames")
    different = ask_git("diff", *options, commit, "--", *names, "pyproject.toml")
    unknown = ask_git("ls-files", "--others", "-z", "--", *(name for name in names if (ROOT / name).is_file()))
    if different.returncode or unknown.returncode:
        return []
    return sorted({name for name in (different.stdout + unknown.stdout).split("\0") if name})
