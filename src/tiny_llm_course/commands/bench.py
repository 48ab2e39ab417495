"""`pdm run bench 1.1`: a day's measurement, on the learner's own code; `engine`, `--progression`: whole engines."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..course.registry import UsageError, load_course, with_commands
from ..course.requirements import in_words, missing
from ..course.selection import by_day
from ..doctor import blas
from ..grading.build import must_be_built
from ..grading.day import grade_day
from ..learner import progress
from ..paths import LEARNER, SOLUTION
from ..programs.packages import LearnerError
from ..terminal.screen import USUAL, columns, say
from .options import OUT_FILE, Finite, dtype_option
from .out_file import must_take_measurement, waiting, write

if TYPE_CHECKING:
    from ..measuring.benches import Measurement


@click.command(short_help="Measure what you built on a day, or a whole engine.")
@click.argument("name", required=False, metavar="[1.1|engine|serve]")
@click.option("--solution", is_flag=True, help="Measure our code instead of yours.")
@click.option("--quick", is_flag=True, help="Small sizes, to see that it works; the numbers say nothing.")
@click.option("--json", "file", type=OUT_FILE, metavar="FILE", help="Write the numbers there too.")
@click.option("--progression", is_flag=True, help="All stages that you have built, beside other engines.")
@click.option("--model", help="Engines: a checkpoint's folder or Hub id (default: models/tiny-qwen3).")
@click.option("--stage", help="engine: which of those you have built (default: the furthest).")
@partial(dtype_option, text="Engines: of the weights.")
@click.option("--svg", type=OUT_FILE, metavar="FILE", help="Engines: draw what was found there.")
@click.option("--draft", help="serve: a small model that guesses tokens; a checkpoint's folder or Hub id.")
@click.option("--requests", type=click.IntRange(1, 10_000), help="serve: how many come (default: 32).")
@click.option("--rate", type=Finite(min=0.01), help="serve: how many come in a second (default: what keeps it busy).")
@click.option("--seed", type=click.IntRange(min=0), help="serve: the same seed gives the same requests.")
@click.option("--url", help="serve: send them to a server that speaks as OpenAI's does.")
@click.option("--replay", is_flag=True, help="serve: show what the scheduler decides, step by step.")
def bench(
    name: str | None,
    solution: bool,
    quick: bool,
    file: Path | None,
    progression: bool,
    model: str | None,
    stage: str | None,
    dtype: str | None,
    svg: Path | None,
    draft: str | None,
    **load: Any,
) -> int:
    """Measure what you have built on a day: time, memory or error. Without a day: what there is to measure.

    `engine` measures a whole engine, beside what this machine's memory and arithmetic allow; `--progression` all
    stages, as they write the same text; `serve` all ways to serve many requests.
    """
    blas.load()
    if name == "serve" and not progression:
        from .bench_engines import bench_serve

        which = {"model": model, "solution": solution, "dtype": dtype, "draft": draft}
        return bench_serve(which, stage, load, quick, file, svg)
    if given := [option for option, value in {"draft": draft, **load}.items() if value]:
        raise UsageError(f"--{given[0]} is for a load of requests: pdm run bench serve")
    if progression:
        if name or stage:
            other = name or f"--stage {stage}"
            raise UsageError(f"--progression is of all stages, so not with {other}: pdm run bench --progression")
        from .bench_engines import bench_progression

        return bench_progression({"model": model, "solution": solution, "dtype": dtype}, quick, file, svg)
    if name == "engine":
        from .bench_engines import bench_engine

        return bench_engine({"model": model, "solution": solution, "dtype": dtype, "stage": stage}, quick, file, svg)
    for option, value in {"model": model, "stage": stage, "dtype": dtype, "svg": svg}.items():
        if value is not None:
            raise UsageError(f"--{option} is for a whole engine: pdm run bench engine --{option} {value}")
    from ..measuring import benches

    if name is None:
        if file:
            raise UsageError("--json needs a day: pdm run bench 1.1 --json FILE")
        _list(benches.measurements(load_course()))
        return 0
    measurement = benches.find(name)
    if absent := missing(word for task in measurement.uses for word in task.requires):
        raise UsageError(f"{name} cannot be measured here: needs {in_words(absent)}.")
    must_take_measurement(file, None, "day", "package", "machine", "columns", "rows", "see")
    if not solution:
        with waiting("grading what is measured"):
            _must_pass(measurement)
    must_be_built(measurement.uses, SOLUTION if solution else LEARNER)
    package = benches.choose(solution)
    with waiting("measuring, up to 20 seconds"):
        found = benches.run(measurement, package, quick)
    _show(found, [] if solution else [task.id for task in measurement.uses if task.id in progress.borrowed()])
    if file:
        write(file, benches.as_json(found))
    return 0


def _list(known: "list[Measurement]") -> None:
    say("What can be measured, each in about 20 seconds at most:", bold=True)
    for measurement in known:
        say(f"  {measurement.name}  {measurement.title}")
    say("  engine  A whole engine, beside what this machine allows")
    say("  --progression  All stages, beside other engines, in a minute")
    say("  serve  All ways to serve many requests, under the same load")
    say()
    say(f"Your code: pdm run bench {known[0].name}; ours: pdm run bench {known[0].name} --solution")


def _must_pass(measurement: "Measurement") -> None:
    """The time of wrong code is no measurement. What is known to pass is not graded again.

    Raises:
        LearnerError: something that is measured has not passed.
    """
    borrowed = progress.borrowed()
    wanted = [task for task in measurement.uses if task.id not in borrowed and progress.status_of(task.id) != "passed"]
    for day, tasks in by_day(wanted):
        results = grade_day(day, tasks=tasks)
        progress.record(results)
        for result in results:
            if result.status != "passed":
                what = "is not started" if result.status == "not started" else "has not passed"
                line = f"{result.task.label} {what} (with --solution, ours is measured). Your next step:"
                raise LearnerError(with_commands(line, f"pdm run test {result.task.id}"))


def _show(found: dict[str, Any], borrowed: list[str]) -> None:
    from ..measuring.clock import number
    from ..measuring.machine import in_words
    from ..terminal.tables import in_columns

    week, day = found["day"].split(".")
    say(f"Week {week}, day {day}: {found['title']}  ({found['package']})", bold=True)
    say()
    rows = [[number(cell) for cell in row] for row in found["rows"]]
    for line in in_columns(found["columns"], rows, columns(sys.stdout) or USUAL):
        say(line, cut=True)
    say()
    say(found["see"])
    say()
    if borrowed:
        say(f"⇢ ours, as you have borrowed them: {', '.join(borrowed)}", colour="yellow")
    if found["quick"]:
        say("Measured with --quick: the sizes are too small to say anything.", colour="yellow")
    say(in_words(found["machine"]))
