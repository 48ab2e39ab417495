"""The pytest plugin: makes the day tests grade the learner's package, or with `--solution` the solved one.

It is loaded by pyproject.toml, so that `pytest tests/week1/test_day1.py` and an editor's test runner grade as
`pdm run test` does; that command adds the child process with its limits, and the report.
"""

import re
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from . import borrowing, progress
from .diagnosis import finding_of
from .findings import CheckFailed, Finding, Kind
from .guard import Guard, import_oracles
from .packages import NotImportable, import_learner, put_broken, put_package
from .paths import LEARNER, SOLUTION, TESTS
from .recordings import MODES, Recordings
from .registry import Day, Task, load_course
from .traps import Traps

DAY_FILE = re.compile(r"week(\d+)/test_day(\d+)\.py")
TASK = pytest.StashKey[Task]()
FINDING = pytest.StashKey[Finding]()
TRAPS = pytest.StashKey[Traps]()
GUARD = pytest.StashKey[Guard]()
RECORDINGS = pytest.StashKey[dict[Path, Recordings]]()
BORROWED = pytest.StashKey[frozenset[str]]()
# Set by the child process: files known not to be importable, and who is told which one is imported ("" after the last).
BROKEN = pytest.StashKey[dict[str, Finding]]()
IMPORTING = pytest.StashKey[Callable[[str], None]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--solution`, `--oracle` and `--task`."""
    group = parser.getgroup("tiny-llm")
    group.addoption("--solution", action="store_true", help="grade solutions/tiny_llm instead of src/tiny_llm")
    group.addoption("--oracle", choices=MODES, default="recorded", help="PyTorch's answers: recorded, live, or record")
    group.addoption("--task", action="append", default=[], metavar="ID", help="grade only this task (repeatable)")


def pytest_configure(config: pytest.Config) -> None:
    """Put the package to grade first on the path, and the references in the places of what is borrowed."""
    package = graded_package(config)
    sys.path.insert(0, str(package.parent))
    borrowed = () if config.getoption("--solution") else progress.borrowed_tasks()
    borrowing.install(borrowed)
    config.stash[BORROWED] = frozenset(task.id for task in borrowed)
    config.stash[TRAPS] = Traps([package])
    if package == LEARNER:
        config.stash[TRAPS].close(SOLUTION)
    config.stash[GUARD] = Guard()
    config.stash[RECORDINGS] = {}
    config.stash.setdefault(BROKEN, {})
    config.stash.setdefault(IMPORTING, lambda module: None)


def graded_package(config: pytest.Config) -> Path:
    """The folder of the package that this run grades."""
    return SOLUTION if config.getoption("--solution") else LEARNER


def day_of(path: Path) -> Day | None:
    """The day that a test file grades."""
    path = path.resolve()  # an editor may come through a symbolic link, as /tmp is one on a Mac
    if not path.is_relative_to(TESTS) or not (match := DAY_FILE.fullmatch(path.relative_to(TESTS).as_posix())):
        return None
    return load_course().day(int(match[1]), int(match[2]))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Before a day's tests are imported: set traps and guard, then import the files that its tasks are written in."""
    if not (day := day_of(module_path)):
        return
    import mlx.core as mx

    # The one device that every machine has, with the same arithmetic everywhere.
    mx.set_default_device(mx.cpu)
    stash = parent.config.stash
    stash[TRAPS].set(name for task in day.tasks for name in task.forbidden)
    used = import_oracles(module_path)
    stash[GUARD].note()
    broken = stash[BROKEN]
    for module in dict.fromkeys([*broken, *(t.module for task in day.tasks for t in task.targets), *used]):
        if finding := broken.get(module, broken.get("__init__")):  # without that file there is no package
            put_broken(module, NotImportable(module, finding))
            continue
        stash[IMPORTING](module)
        import_learner(module)
        if replaced := stash[GUARD].restore():
            put_broken(module, NotImportable(module, f"it replaces {replaced}, which the tests rely on"))
    put_package(graded_package(parent.config))
    stash[IMPORTING]("")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each graded test its task, by its name, and leave out the tasks that are not asked for."""
    for item in items:
        day = day_of(item.path)
        for task in day.tasks if day else ():
            if item.name.startswith(f"test_{task.tests}_"):
                item.stash[TASK] = task
                if task.id in config.stash[BORROWED]:  # the reference would pass, and prove nothing
                    item.add_marker(pytest.mark.skip(reason=f"borrowed (pdm run return {task.id})"))
    # A task's checks stand together, so that its end is seen.
    graded = iter(sorted((i for i in items if TASK in i.stash), key=lambda i: _place(i.stash[TASK])))
    items[:] = [next(graded) if TASK in item.stash else item for item in items]
    if wanted := config.getoption("--task"):
        kept = [item for item in items if TASK in item.stash and item.stash[TASK].id in wanted]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    config.stash[GUARD].note()  # the tests themselves, too


def _place(task: Task) -> tuple[int, ...]:
    return tuple(map(int, task.id.split(".")))


@pytest.fixture
def pytorch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """An oracle: `pytorch(function, *inputs)` gives what `function(torch, *inputs)` gives, by default as recorded."""
    files = request.config.stash[RECORDINGS]
    path = request.path.with_name(f"{request.path.stem.replace('test_', 'torch_')}.npz")
    if path not in files:
        files[path] = Recordings(path, request.config.getoption("--oracle"))
    return lambda function, *args, **kwargs: files[path].answer(request.node.name, function, *args, **kwargs)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was recorded."""
    options = session.config.option
    complete = not (options.keyword or options.markexpr or options.task or session.testsfailed)
    for recordings in session.config.stash[RECORDINGS].values():
        recordings.save(complete)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Arm the traps of the test's task; a caught call fails the test even if the learner's code swallowed the error.

    So does anything of the harness that is not what it was.
    """
    traps, guard = item.config.stash[TRAPS], item.config.stash[GUARD]
    task = item.stash.get(TASK, None)
    traps.armed, traps.hits = frozenset(task.forbidden if task else ()), []
    try:
        yield
        if traps.hits:
            raise traps.hits[0]
    finally:
        traps.armed = frozenset()
        if task and (replaced := guard.restore()):
            headline = f"your code replaces {replaced}, which the tests rely on"
            raise CheckFailed(Finding(Kind.FORBIDDEN, headline))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in one line what failed, for a graded test."""
    report = yield
    if call.excinfo and not report.skipped and TASK in item.stash:
        finding = finding_of(call.excinfo.value, graded_package(item.config))
        item.stash[FINDING] = finding
        if not finding.unexpected:  # an editor shows the verdict, not the harness's own lines
            report.longrepr = finding.text()
    return report
