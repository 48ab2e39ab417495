"""The benchmarks `benches/weekN/dayM.py`, whose function `measure` returns a `Table`: list, run and record them."""

import ast
import importlib.util
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from ..course.entities import Day, Task
from ..course.file_paths import bench_path, record_path
from ..course.registry import Course, UsageError, load_course, resolve
from ..grading.exceptions import learners_code
from ..learner import progress
from ..paths import LEARNER, SOLUTION, put_first
from ..programs import borrowing
from ..source.parsing import parse
from .clock import Table


class Measurement(NamedTuple):
    """A day's benchmark."""

    name: str  # which a learner types
    day: Day
    file: Path
    record: Path  # of our own result
    title: str
    uses: tuple[Task, ...]  # whose code it runs, in the order of the course


def measurements(course: Course) -> list[Measurement]:
    """Return all benchmarks."""
    return [_read(course, day) for day in course.days() if bench_path(day).is_file()]


def find(name: str) -> Measurement:
    """Return the benchmark of the day named like 1.1; raise UsageError if there is none."""
    course = load_course()
    day = course.day_of(resolve(course, name)[0]).name
    if name.count(".") != 1:
        raise UsageError(f"{name} is not a day; benchmarks are per day: pdm run bench {day}")
    known = {measurement.name: measurement for measurement in measurements(course)}
    if day not in known:
        there = f" Days with one: {', '.join(known)}." if known else ""
        raise UsageError(f"Day {day} has no benchmark yet.{there}")
    return known[day]


def _read(course: Course, day: Day) -> Measurement:
    file = bench_path(day)
    tree = parse(file.read_bytes())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    used = {(f"{node.module}", alias.name) for node in imports for alias in node.names}
    programs = {task.id: task.program for task in course.tasks()}
    own = {id for id, it in programs.items() if (f"tiny_llm.{it.module}", it.name.partition(".")[0]) in used}
    every = own.union(*(course.needs(task) for task in own))
    title = (ast.get_docstring(tree) or file.name).splitlines()[0].rstrip(".")
    uses = tuple(task for task in course.tasks() if task.id in every)
    return Measurement(day.name, day, file, record_path(day), title, uses)


def choose(solution: bool) -> Path:
    """Make `tiny_llm` the solution, or the learner's package with what is borrowed or skipped; return its folder."""
    package = SOLUTION if solution else LEARNER
    put_first(package)
    borrowing.install(() if solution else progress.on_reference())
    return package


def run(measurement: Measurement, package: Path, quick: bool = False) -> dict[str, Any]:
    """Run a benchmark on the chosen package; return the result as JSON data. LearnerError if the package raises."""
    from .machine import circumstances

    spec = importlib.util.spec_from_file_location(f"bench_{measurement.name}", measurement.file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with learners_code(package), redirect_stdout(io.StringIO()):  # a learner's prints would break the table
        spec.loader.exec_module(module)
        table: Table = module.measure(quick)
    return {
        "day": measurement.name,
        "title": measurement.title,
        **circumstances(package, quick),
        "columns": list(table.columns),
        # Six digits of a measured number; the others are noise.
        "rows": [[float(f"{cell:.6g}") if isinstance(cell, float) else cell for cell in row] for row in table.rows],
        "see": table.see,
    }


def as_json(found: dict[str, Any]) -> str:
    """Return the text of a record."""
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
