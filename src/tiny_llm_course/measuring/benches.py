"""The measurements, `benches/weekN/dayM.py`: which there are, what they measure, running one, keeping what it found.

Such a file says in its first line what is measured, imports it from `tiny_llm`, and has a function `measure` that gives
a `Table`. The package is the learner's or the solution, whichever was put on the path.
"""

import ast
import dataclasses
import importlib.util
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from ..course.nouns import Day, Task
from ..course.places import bench_path, record_path
from ..course.registry import Course, UsageError, load_course, resolve
from ..grading.exceptions import learners_code
from ..learner import progress
from ..paths import LEARNER, SOLUTION, put_first
from ..programs import borrowing
from ..source.parsing import parse
from .clock import Cell, Table


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What is measured of a day."""

    day: Day
    file: Path
    title: str
    uses: tuple[Task, ...]  # whose code runs, in the order of the course

    @property
    def name(self) -> str:
        """What a learner types."""
        return self.day.name

    @property
    def record(self) -> Path:
        """Where it is kept what our own code took."""
        return record_path(self.day)


def measurements(course: Course) -> list[Measurement]:
    """All there are."""
    return [_read(course, day) for day in course.days() if bench_path(day).is_file()]


def find(name: str) -> Measurement:
    """The measurement of the day that a name like 1.1 stands for.

    Raises:
        UsageError: there is none.
    """
    course = load_course()
    task = resolve(course, name)[0]
    day = course.day_of(task).name
    if name.count(".") != 1:
        raise UsageError(f"{name} is not a day, and what is measured are days: pdm run bench {day}")
    known = {measurement.name: measurement for measurement in measurements(course)}
    if day not in known:
        there = f" There is {', '.join(known)}." if known else ""
        raise UsageError(f"Nothing is measured on day {day} yet.{there}")
    return known[day]


def _read(course: Course, day: Day) -> Measurement:
    file = bench_path(day)
    tree = parse(file.read_bytes())
    used = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    own = {
        task.id
        for task in course.tasks()
        if (f"tiny_llm.{task.program.module}", task.program.name.partition(".")[0]) in used
    }
    every = own.union(*(course.needs(task) for task in own))
    title = (ast.get_docstring(tree) or file.name).splitlines()[0].rstrip(".")
    return Measurement(day, file, title, tuple(task for task in course.tasks() if task.id in every))


def choose(solution: bool) -> Path:
    """From now on `tiny_llm` is the solution, or the learner's package with what is borrowed; the folder of it."""
    package = SOLUTION if solution else LEARNER
    put_first(package)
    borrowing.install(() if solution else progress.borrowed_tasks())
    return package


def run(measurement: Measurement, package: Path, quick: bool = False) -> dict[str, Any]:
    """Measure the package that was chosen: what was found, on which machine, and when, as JSON has it.

    Raises:
        LearnerError: the package raised something.
    """
    from .machine import circumstances

    spec = importlib.util.spec_from_file_location(f"bench_{measurement.name}", measurement.file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with learners_code(package), redirect_stdout(io.StringIO()):  # what the learner prints would tear the table
        spec.loader.exec_module(module)
        table: Table = module.measure(quick)
    return {
        "day": measurement.name,
        "title": measurement.title,
        **circumstances(package, quick),
        "columns": list(table.columns),
        "rows": [[_rounded(cell) for cell in row] for row in table.rows],
        "see": table.see,
    }


def _rounded(cell: Cell) -> Cell:
    """Six digits of a measured number: more are noise."""
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell


def as_json(found: dict[str, Any]) -> str:
    """The text of a file."""
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
