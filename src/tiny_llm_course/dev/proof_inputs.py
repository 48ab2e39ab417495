"""Every file that the proof of a task reads. The key covers them all, and each proof checks that it opens no others.

Imports are followed wherever they stand in a file. In a package with kernels, a file in another language comes with the
modules of its folder: kernels are launched by name, headers are included, and compiling one kernel hashes all headers
of its folder. Elsewhere a data file comes with the modules that name it.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ..course.entities import Task
from ..course.file_paths import recordings_path, tests_path, variants_path
from ..course.registry import load_course
from ..paths import COURSE, EMBEDDED_MODEL, LEARNER, REGISTRY, ROOT, SOLUTION, TESTS, WATCHERS
from ..source.parsing import parse
from ..source.reach import import_of

# The folders of each package that a proof imports. In tests `tiny_llm` is the solution; its stubs are proven, too.
PACKAGES = {
    "tiny_llm": (SOLUTION, LEARNER),
    "tiny_llm_solution": (SOLUTION,),
    "tiny_llm_course": (COURSE,),
    "tests": (TESTS,),
    **{folder.name: (folder,) for folder in WATCHERS},
}
PROVES = COURSE / "dev" / "proof.py"
GRADES = COURSE / "grading" / "plugin.py"  # loaded by pytest, by its name
WITH_KERNELS = (SOLUTION, LEARNER, *WATCHERS)


def files_of(task: Task) -> set[Path]:
    """Return the files below the root that the proof of a task may read, apart from the registry's."""
    course = load_course()
    day = course.day_of(task)
    needed = [course.task(need) for need in course.needs(task.id)]
    judged = [course.task(task.judges)] if task.judges else []
    roots = [PROVES, GRADES, tests_path(task), *map(variants_path, [task, *needed, *judged])]
    for package in (SOLUTION, LEARNER):
        for each in [*day.tasks, *needed, *judged]:
            roots += [package / part.file for part in {each.target, each.program}]
        for week in {course.week(each.week) for each in [task, *needed]}:
            roots += [package / week.build] if week.build else []
    # pytest's settings, and the program that is started: Hypothesis samples constants of all loaded modules.
    begins = [ROOT / "pyproject.toml", COURSE / "bootstrap.py"]
    data = [recordings_path(day), *EMBEDDED_MODEL.rglob("*"), *begins]
    if any("compiler" in each.requires for each in [*day.tasks, *needed]):
        # A build of the learner's package asks which optional tasks are untouched: these run on the solution.
        data += [LEARNER / each.target.file for each in course.tasks() if each.optional]
    found = set(roots)
    waiting = [*found]
    for file in waiting:  # which grows meanwhile
        more = _reached_from(file) - found
        found |= more
        waiting += more
    return {file for file in [*found, *data] if file.is_file()}


def left_out(opened: Iterable[Path], tasks: Iterable[Task]) -> list[Path]:
    """Return the opened files that no task's key covers. Keys cover the registry by its entries."""
    covered = {file for task in tasks for file in files_of(task)}
    return sorted(file for file in set(opened) - covered if not file.is_relative_to(REGISTRY))


@cache
def _reached_from(file: Path) -> frozenset[Path]:
    if not file.is_file():
        return frozenset()
    packages = {each / "__init__.py" for each in file.parents if (each / "__init__.py").is_file()}
    return frozenset({*packages, *_data_beside(file), *(_imported(file) if file.suffix == ".py" else ())})


def _data_beside(file: Path) -> Iterator[Path]:
    """Yield the files in other languages that belong to a module."""
    if any(file.is_relative_to(package) for package in WITH_KERNELS):
        yield from _data(next((each for each in file.parents if any(each.glob("*.py"))), file.parent))
    elif file.suffix == ".py":
        text = file.read_text(encoding="utf-8")
        yield from (data for data in _data(file.parent) if data.name in text)


@cache
def _data(folder: Path) -> tuple[Path, ...]:
    """Return the non-module files below a folder, except those in folders with modules of their own."""
    files = [each for each in sorted(folder.iterdir()) if not each.name.startswith((".", "__pycache__"))]
    inner = [each for each in files if each.is_dir() and not any(each.glob("*.py")) and each != REGISTRY]
    own = [each for each in files if each.is_file() and each.suffix != ".py"]
    return (*own, *(data for each in inner for data in _data(each)))


def _imported(file: Path) -> Iterator[Path]:
    """Yield the files of the modules that a module imports, and of the packages around them."""
    for node in ast.walk(parse(file.read_bytes())):
        match import_of(node):
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield from _modules(alias.name.split("."))
            case ast.ImportFrom(module=module, names=aliases, level=0) if module:
                for alias in aliases:
                    yield from _modules([*module.split("."), alias.name])
            case ast.ImportFrom(module=module, names=aliases, level=level) if level:
                folder = file.parents[level - 1]
                parts = module.split(".") if module else []
                for alias in aliases:
                    yield from _modules_in(folder, [*parts, alias.name])


def _modules(parts: list[str]) -> Iterator[Path]:
    for folder in PACKAGES.get(parts[0], ()):
        yield from _modules_in(folder, parts[1:])


def _modules_in(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the modules on a dotted path below a folder; its last part may be a name within a module."""
    places = [folder.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    yield from (file for place in places if (file := place / "__init__.py").is_file())
    yield from (file for place in places[1:] if (file := place.with_suffix(".py")).is_file())
