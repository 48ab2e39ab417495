"""The pytest plugin that makes the day tests grade the learner's package, or with `--solution` the solved one.

pyproject.toml loads it, so that an editor's test runner grades as `pdm run test` does.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from ..course.entities import Task
from ..course.file_paths import day_of, recordings_path
from ..course.findings import CheckFailed, Finding, Kind
from ..course.registry import load_course
from ..course.requirements import in_words, missing
from ..learner import progress
from ..paths import LEARNER, SOLUTION, make_importable, put_first
from ..programs import borrowing, kernels
from ..programs.packages import NotImportable, import_learner, program, put_broken, put_package
from ..programs.parts import use_published
from ..source.imports import Imports
from ..testkit.recordings import MODES, Recordings
from .exceptions import finding_of
from .guard import Guard, import_oracles
from .own_work import AnswerGuard, forbidden_kind, foreign_target
from .returns import idle
from .traps import Traps, nothing_compiled

Reporting = Generator[None, pytest.TestReport, pytest.TestReport]
TASK = pytest.StashKey[Task]()
ABSENT = pytest.StashKey[tuple[str, ...]]()  # what the check needs and this machine lacks
FINDING = pytest.StashKey[Finding]()
TRAPS = pytest.StashKey[Traps]()
CLOSED = pytest.StashKey[AnswerGuard]()
GUARD = pytest.StashKey[Guard]()
PREPARED = pytest.StashKey[set[Path]]()  # test files whose task files have been imported
RECORDINGS = pytest.StashKey[dict[Path, Recordings]]()
BORROWED = pytest.StashKey[frozenset[str]]()
TRIAL = pytest.StashKey[bool]()  # checks run on known programs, which are not the learner's work
# Set by the child process: files known not to be importable, and what to call before each import (with "" at the end).
BROKEN = pytest.StashKey[dict[str, Finding]]()
IMPORTING = pytest.StashKey[Callable[[str], None]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--solution`, `--oracle` and `--task`."""
    group = parser.getgroup("tiny-llm")
    group.addoption("--solution", action="store_true", help="grade solutions/tiny_llm instead of src/tiny_llm")
    group.addoption("--oracle", choices=MODES, default="recorded", help="PyTorch's answers: recorded, live, or record")
    group.addoption("--task", action="append", default=[], metavar="ID", help="grade only this task (repeatable)")


def pytest_configure(config: pytest.Config) -> None:
    """Put the package to grade first on the path, and substitute the solution for borrowed and skipped tasks."""
    make_importable()
    config.addinivalue_line("markers", "needs(*words): what the check needs of the machine, beyond its task")
    config.addinivalue_line("markers", "on(device): MLX's default device while the check is called")
    package = graded_package(config)
    put_first(package)
    graded = set(config.getoption("--task"))
    used = {need for task in graded for need in load_course().needs(task)} - graded
    borrowed = () if config.getoption("--solution") else progress.on_reference(used)
    borrowing.install(borrowed)
    kernels.install(borrowed)
    config.stash[BORROWED] = frozenset(task.id for task in borrowed)
    config.stash[TRAPS] = Traps([package])
    if package == LEARNER:
        use_published()
        config.stash[CLOSED] = AnswerGuard(config.stash[TRAPS], Imports(LEARNER, SOLUTION))
    config.stash[GUARD] = Guard()
    config.stash[PREPARED] = set()
    config.stash[RECORDINGS] = {}
    config.stash.setdefault(BROKEN, {})
    config.stash.setdefault(IMPORTING, lambda module: None)


def graded_package(config: pytest.Config) -> Path:
    """Return the folder of the package that this run grades."""
    return SOLUTION if config.getoption("--solution") else LEARNER


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore graded tests that were not asked for: pytest looks into every file beside one that is named."""
    asked = [Path(config.invocation_params.dir, argument.partition("::")[0]) for argument in config.args]
    if not collection_path.is_file() or not all(each.exists() for each in asked):
        return None
    return None if any(collection_path.is_relative_to(each) for each in asked) else True


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Before a day's tests are imported, set traps and guard, then import the files of its tasks."""
    stash = parent.config.stash
    if not (day := day_of(module_path)) or module_path in stash[PREPARED]:
        return
    stash[PREPARED].add(module_path)  # pytest makes a module once for each file on its command line
    import mlx.core as mx

    # Every machine has it, with the same arithmetic. A check may be marked with another device.
    mx.set_default_device(mx.cpu)
    # Those of all days: a file that is imported now keeps what it binds, and serves other days' tasks, too.
    stash[TRAPS].set(name for task in load_course().tasks() for name in task.forbidden)
    used = import_oracles(module_path, graded_package(parent.config))
    stash[GUARD].note()
    broken = stash[BROKEN]
    known = sorted(module.removesuffix(".__init__") for module in broken)  # a folder before its files
    for module in dict.fromkeys([*known, *(task.program.module for task in day.tasks), *used]):
        parts = module.split(".")  # without these files there is no such module
        folders = [".".join([*parts[:depth], "__init__"]) for depth in range(len(parts), -1, -1)]
        if finding := next((broken[one] for one in (module, *folders) if one in broken), None):
            put_broken(module, NotImportable(module, finding))
            continue
        stash[IMPORTING](module)
        with nothing_compiled():
            import_learner(module)
        if replaced := stash[GUARD].restore():
            put_broken(module, NotImportable(module, f"it replaces {replaced}, which the tests rely on"))
    put_package(graded_package(parent.config))
    stash[IMPORTING]("")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Assign each graded test to its task by its name, and drop the tasks that were not asked for."""
    for item in items:
        day = day_of(item.path)
        for task in day.tasks if day else ():
            if item.name.startswith(f"test_{task.tests}_"):
                item.stash[TASK] = task
                if task.id in config.stash[BORROWED]:  # the reference would pass and prove nothing
                    item.add_marker(pytest.mark.skip(reason=f"borrowed (pdm run return {task.id})"))
        if absent := missing(required(item)):
            item.stash[ABSENT] = absent
            item.add_marker(pytest.mark.skip(reason=f"not run here: needs {in_words(absent)}"))
    # A task's checks are adjacent, so that its last one is known.
    graded = iter(sorted((i for i in items if TASK in i.stash), key=lambda i: i.stash[TASK].place))
    items[:] = [next(graded) if TASK in item.stash else item for item in items]
    if wanted := config.getoption("--task"):
        kept = [item for item in items if TASK in item.stash and item.stash[TASK].id in wanted]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    config.stash[GUARD].note()  # the tests themselves, too


def required(item: pytest.Item) -> tuple[str, ...]:
    """Return what a test needs of the machine: what its task requires, and what its marks say."""
    words = [word for mark in item.iter_markers("needs") for word in mark.args]
    of_task = item.stash[TASK].requires if TASK in item.stash else ()
    return tuple(dict.fromkeys([*of_task, *words, *["gpu"] * (_device(item) == "gpu")]))


def _device(item: pytest.Item) -> str:
    mark = item.get_closest_marker("on")
    return str(mark.args[0]) if mark else ""


@contextmanager
def _on_its_device(item: pytest.Item) -> Iterator[None]:
    if not (wanted := _device(item)):
        yield
        return
    import mlx.core as mx

    before = mx.default_device()
    mx.set_default_device(getattr(mx, wanted))
    try:
        yield
    finally:
        mx.set_default_device(before)


@pytest.fixture
def pytorch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return an oracle: `pytorch(function, *inputs)` gives `function(torch, *inputs)`, by default as recorded."""
    files = request.config.stash[RECORDINGS]
    day = day_of(request.path)
    assert day
    path = recordings_path(day)
    if path not in files:
        files[path] = Recordings(path, request.config.getoption("--oracle"))
    return lambda function, *args, **kwargs: files[path].answer(request.node.name, function, *args, **kwargs)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save what was recorded."""
    options = session.config.option
    complete = not (options.keyword or options.markexpr or options.task or session.testsfailed)
    complete = complete and not any(ABSENT in item.stash for item in session.items)
    for recordings in session.config.stash[RECORDINGS].values():
        recordings.save(complete)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Arm the task's traps; also fail an unearned pass, a swallowed trap, and a replaced part of the harness."""
    traps, guard = item.config.stash[TRAPS], item.config.stash[GUARD]
    task = item.stash.get(TASK, None)
    traps.arm(task)
    try:
        with _on_its_device(item):
            try:
                yield
            except CheckFailed:
                if not traps.hits:
                    raise
        earned_here = CLOSED in item.config.stash and not item.config.stash.get(TRIAL, False)
        if task and earned_here and (fault := _not_earned(task, item.config)):
            raise CheckFailed(Finding(Kind.FORBIDDEN, fault))
        if traps.hits:
            raise traps.hits[0]
    finally:
        traps.arm(None)
        if task and (replaced := guard.restore()):
            raise CheckFailed(Finding(Kind.FORBIDDEN, f"your code replaces {replaced}, which the tests rely on"))


def _not_earned(task: Task, config: pytest.Config) -> str:
    """Return why the learner's own code has not earned a task's pass, in a line; "" if it has."""
    traps, name = config.stash[TRAPS], task.program.name
    if task.target.is_python:
        target = program(task.program)
        if what := foreign_target(target, traps):
            return f"{name} is not written here: it is {what}"
        if kind := forbidden_kind(target, traps):
            return f"{name} is a kind of {kind}, which this task must do without"
    elif getattr(program(task.program), "__globals__", {}).get("__file__") != str(LEARNER / task.program.file):
        return f"your code replaces {name}, which calls the kernel"
    return "" if traps.hits else config.stash[CLOSED].fault(task)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Reporting:
    """Report a graded test's failure in one line."""
    report = yield
    if call.excinfo and report.longrepr and not report.skipped and TASK in item.stash:
        package = graded_package(item.config)
        finding = idle(finding_of(call.excinfo.value, package), item.stash[TASK].target, package)
        item.stash[FINDING] = finding
        if finding.kind != Kind.RAISED:  # editors then show the verdict, not the harness's lines
            report.longrepr = finding.text()
    return report


def run_again(item: pytest.Item) -> bool:
    """Run a check with fresh fixtures, and return whether it passes. One that is skipped does."""
    item._initrequest()  # type: ignore[attr-defined]
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))
