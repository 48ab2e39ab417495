"""`pdm run bench 1.1`: a day's benchmark, on the learner's own code; `engine`, `--progression`: whole engines."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..course.registry import LearnerError, UsageError, load_course, with_commands
from ..course.requirements import in_words, missing
from ..course.selection import by_day
from ..doctor import blas
from ..grading.build import must_be_built
from ..grading.day import grade_day
from ..learner import progress
from ..paths import LEARNER, SOLUTION
from ..terminal.screen import USUAL, columns, say
from .options import OUT_FILE, Finite, bits_option, dtype_option
from .out_file import must_take_measurement, waiting, write

if TYPE_CHECKING:
    from ..measuring.benches import Measurement


@click.command()
@click.argument("name", required=False, metavar="[1.1|engine|serve|agent]")
@click.option("--solution", is_flag=True, help="Measure our code instead of yours.")
@click.option("--quick", is_flag=True, help="Use small sizes, as a smoke test; the numbers mean nothing.")
@click.option("--json", "file", type=OUT_FILE, metavar="FILE", help="Also write the numbers to FILE.")
@click.option("--progression", is_flag=True, help="Compare all stages that you have built with other engines.")
@click.option("--model", help="Whole engines: a checkpoint (default: models/tiny-qwen3). agent: a model of the server.")
@click.option("--stage", help="engine: the stage to run (default: the latest that you have built).")
@partial(dtype_option, text="Whole engines: dtype of the weights.")
@bits_option
@click.option("--svg", type=OUT_FILE, metavar="FILE", help="Whole engines: draw the results to FILE.")
@click.option("--draft", help="serve: a draft model; a checkpoint's folder or Hub id.")
@click.option("--requests", type=click.IntRange(1, 10_000), help="serve: number of requests (default: 32).")
@click.option("--rate", type=Finite(min=0.01), help="serve: requests per second (default: a busy engine).")
@click.option("--seed", type=click.IntRange(min=0), help="serve: seed of the requests.")
@click.option("--url", help="serve, agent: use this OpenAI-compatible server.")
@click.option("--runs", type=click.IntRange(1, 100), help="agent: runs of each case (default: 1).")
@click.option("--price", type=Finite(min=0), help="agent: dollars per million tokens (default: 0).")
@click.option("--own", is_flag=True, help="agent: also run your agent of the open task, 7.C, and compare.")
@click.option("--replay", is_flag=True, help="serve: show the scheduler's decisions, step by step.")
def bench(name: str | None, solution: bool, quick: bool, file: Path | None, progression: bool, **options: Any) -> int:
    """Benchmark the code of a day: time, memory or error. Without a day: list the benchmarks.

    `engine` compares one engine with this machine's memory bandwidth and peak FLOP/s; `--progression` compares all
    stages on the same text; `serve` runs one load of requests on all serving modes; `agent` runs the suite of week 7.
    """
    blas.load()
    stage, svg, draft = (options.pop(option) for option in ("stage", "svg", "draft"))
    whole = {option: options.pop(option) for option in ("model", "dtype", "bits")}
    suite = {option: options.pop(option) for option in ("runs", "price", "own")}
    if name == "agent" and not progression:
        typed = {**options, "stage": stage, "svg": svg, "draft": draft, "dtype": whole["dtype"], "bits": whole["bits"]}
        if unused := [option for option, value in typed.items() if value and option != "url"]:
            raise UsageError(f"--{unused[0]} does not apply to a suite of coding tasks: pdm run bench agent --help")
        from .bench_agent import bench_agent

        return bench_agent(options["url"], whole["model"] or "", solution, quick, file, **suite)
    if of_suite := [option for option, value in suite.items() if value]:
        raise UsageError(f"--{of_suite[0]} applies to a suite of coding tasks: pdm run bench agent")
    if progression or name in ("engine", "serve"):
        from . import bench_engines
    if name == "serve" and not progression:
        which = {**whole, "solution": solution, "draft": draft}
        return bench_engines.bench_serve(which, stage, options, quick, file, svg)
    if given := [option for option, value in {"draft": draft, **options}.items() if value]:
        raise UsageError(f"--{given[0]} applies to a load of requests: pdm run bench serve")
    if progression:
        if name or stage or whole.pop("bits"):
            other = name or (f"--stage {stage}" if stage else "--bits")
            what = f"--progression covers all stages and cannot be combined with {other}"
            raise UsageError(f"{what}: pdm run bench --progression")
        return bench_engines.bench_progression({**whole, "solution": solution}, quick, file, svg)
    if name == "engine":
        return bench_engines.bench_engine({**whole, "solution": solution, "stage": stage}, quick, file, svg)
    for option, value in {**whole, "stage": stage, "svg": svg}.items():
        if value is not None:
            raise UsageError(f"--{option} applies to a whole engine: pdm run bench engine --{option} {value}")
    from ..measuring import benches

    if name is None:
        if file:
            raise UsageError("--json needs a day: pdm run bench 1.1 --json FILE")
        known = benches.measurements(load_course())
        say("Benchmarks, up to about 20 seconds each:", bold=True)
        for measurement in known:
            say(f"  {measurement.name}  {measurement.title}")
        say("  engine  One engine, against this machine's limits")
        say("  --progression  All stages and other engines, in a minute")
        say("  serve  All serving modes, under the same load")
        say("  agent  The 30 coding tasks of week 7, with scripted models or a server's")
        say(f"\nYour code: pdm run bench {known[0].name}; ours: pdm run bench {known[0].name} --solution")
        return 0
    measurement = benches.find(name)
    if absent := missing(word for task in measurement.uses for word in task.requires):
        raise UsageError(f"{name} cannot be measured here: needs {in_words(absent)}.")
    must_take_measurement(file, None, "day", "package", "machine", "columns", "rows", "see")
    if not solution:
        with waiting("grading the code first"):
            _must_pass(measurement)
    must_be_built(measurement.uses, SOLUTION if solution else LEARNER)
    package = benches.choose(solution)
    with waiting("measuring, up to 20 seconds"):
        found = benches.run(measurement, package, quick)
    _show(found, [] if solution else [task.id for task in measurement.uses if task in progress.on_reference()])
    if file:
        write(file, benches.as_json(found))
    return 0


def _must_pass(measurement: "Measurement") -> None:
    """Grade what is measured, unless it is known to pass; raise LearnerError if it fails: wrong code is not timed."""
    ours = progress.on_reference()
    wanted = [task for task in measurement.uses if task not in ours and progress.status_of(task.id) != "passed"]
    for day, tasks in by_day(wanted):
        results = grade_day(day, tasks=tasks)
        progress.record(results)
        for result in results:
            if result.status != "passed":
                what = "is not started" if result.status == "not started" else "has not passed"
                line = f"{result.task.label} {what} (--solution measures ours). Your next step:"
                raise LearnerError(with_commands(line, f"pdm run test {result.task.id}"))


def _show(found: dict[str, Any], borrowed: list[str]) -> None:
    from ..measuring.clock import number
    from ..measuring.machine import in_words
    from ..terminal.tables import in_columns

    week, day = found["day"].split(".")
    say(f"Week {week}, day {day}: {found['title']}  ({found['package']})\n", bold=True)
    rows = [[number(cell) for cell in row] for row in found["rows"]]
    say("\n".join(in_columns(found["columns"], rows, columns(sys.stdout) or USUAL)), cut=True)
    say(f"\n{found['see']}\n")
    if borrowed:
        say(f"⇢ ours, because {progress.why_on_reference(borrowed)}: {', '.join(borrowed)}", color="yellow")
    if found["quick"]:
        say("Measured with --quick: the sizes are too small for meaningful numbers.", color="yellow")
    say(in_words(found["machine"]))
