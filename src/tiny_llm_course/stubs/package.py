"""Generate the learner's whole package, write it, and say where a committed one differs."""

from pathlib import Path

from ..registry import Course, Target, Task
from .source import stub_source


def stub_package(solution_dir: Path, course: Course) -> dict[str, str]:
    """The text of every file of the learner's package, by its path below the package.

    Raises:
        ValueError: a target's module is not there, or `stub_source` refuses one; the message names the file.
    """
    tasks_by_module: dict[str, dict[str, Task]] = {}
    for task in course.tasks():
        for target in task.targets:
            tasks_by_module.setdefault(target.module.replace(".", "/") + ".py", {})[target.name] = task
    files = _files(solution_dir)
    for path, tasks in tasks_by_module.items():
        if path not in files:
            named = ", ".join(sorted({task.id for task in tasks.values()}))
            raise ValueError(f"there is no {path} in {solution_dir}, where the targets of {named} should be")
    stubs = {}
    for path, text in files.items():
        stubs[path] = _stub(path, text, tasks_by_module.get(path, {}), course) if path.endswith(".py") else text
    return stubs


def write_stubs(solution_dir: Path, learner_dir: Path, course: Course) -> list[str]:
    """Write the generated package, over what is there, and give the paths of the files that changed.

    A file that is not generated is left alone: it may be the learner's.
    """
    present = _files(learner_dir)
    written = []
    for path, text in stub_package(solution_dir, course).items():
        if present.get(path) != text:
            (learner_dir / path).parent.mkdir(parents=True, exist_ok=True)
            (learner_dir / path).write_text(text, encoding="utf-8", newline="\n")
            written.append(path)
    return written


def differences(solution_dir: Path, learner_dir: Path, course: Course) -> list[str]:
    """One line for each file of the learner's package that is not what would be generated; none if all are."""
    wanted, present = stub_package(solution_dir, course), _files(learner_dir)
    found = []
    for path in sorted(wanted.keys() | present.keys()):
        if path not in present:
            found.append(f"{path} is missing")
        elif path not in wanted:
            found.append(f"{path} is not in the solution")
        elif present[path] != wanted[path]:
            found.append(
                f"{path} differs from the generated stub at line {_first_difference(present[path], wanted[path])}"
            )
    return found


def _stub(path: str, text: str, tasks: dict[str, Task], course: Course) -> str:
    needed: set[Target] = set()
    for task in tasks.values():
        needed.update(target for need in task.needs for target in course.task(need).targets)
    try:
        return stub_source(text, tasks, needed)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _files(directory: Path) -> dict[str, str]:
    """The files of a package by their path below it, without caches and hidden files."""
    paths = {path.relative_to(directory): path for path in sorted(directory.rglob("*")) if path.is_file()}
    return {
        relative.as_posix(): path.read_text(encoding="utf-8")
        for relative, path in paths.items()
        if not any(part == "__pycache__" or part.startswith(".") for part in relative.parts)
    }


def _first_difference(one: str, other: str) -> int:
    """The number of the first line in which two different texts differ; one may just be longer."""
    ones, others = one.split("\n"), other.split("\n")
    pairs = zip(ones, others, strict=False)
    return next((i for i, (a, b) in enumerate(pairs, 1) if a != b), min(len(ones), len(others)) + 1)
