"""The command line: `pdm run NAME` and `tiny-llm NAME` are the same."""

import io
import os
import signal
import sys
from functools import partial
from importlib.util import find_spec

import click

from . import (
    bench_cli,
    borrow_cli,
    check_cli,
    compare,
    dev_cli,
    engine_cli,
    export,
    hints,
    progress,
    reset_cli,
    status_cli,
    sync,
    tour,
    train_cli,
    watch,
)
from .grading import Limits, NothingSelected, grade_day
from .help_text import WIDEST, HelpText
from .mdbook import run_mdbook
from .options import Finite
from .packages import LearnerError
from .paths import BOOK, LEARNER, ROOT, SOLUTION
from .registry import UsageError, load_course
from .report import holds_stub, report_heading, report_results
from .results import TaskResult
from .screen import columns, say
from .selection import by_day, run_pytest, selected


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """tiny-llm: build an LLM inference engine, day by day, every line graded."""


@cli.command()
@click.argument("names", nargs=-1, metavar="[1.1.2 | 1.1]...")
@click.option("--week", type=int, help="The week of the day to grade; alone only with --solution.")
@click.option("--day", type=int, help="The day to grade.")
@click.option("--solution", is_flag=True, help="Grade solutions/tiny_llm instead of src/tiny_llm.")
@click.option("--full", is_flag=True, help="Show pytest's own output, without limits of time and memory.")
@click.option(
    "--oracle",
    type=click.Choice(["recorded", "torch"]),
    default="recorded",
    help="PyTorch's answers: recorded or live.",
)
@click.option("--time-limit", type=Finite(min=0.1), default=Limits.seconds, help="Seconds a task may take.")
@click.option("--memory-limit", type=Finite(min=0.1), default=Limits.memory / 2**30, help="GB it may take.")
@click.pass_obj
def test(
    pytest_args: tuple[str, ...],
    names: tuple[str, ...],
    week: int | None,
    day: int | None,
    solution: bool,
    full: bool,
    oracle: str,
    time_limit: float,
    memory_limit: float,
) -> int:
    """Grade a day (--week 1 --day 1, or 1.1) or a task (1.1.2); without either, everything you have started.

    What stands after -- goes to pytest: pdm run test --week 1 --day 1 -- -k task_1
    """
    tasks = selected(names, week, day, solution)
    if full:
        return run_pytest(tasks, ["--oracle", oracle, *(["--solution"] * solution), *pytest_args])
    limits = Limits(time_limit, int(memory_limit * 2**30))
    package = (SOLUTION if solution else LEARNER).relative_to(ROOT).as_posix()
    everything = not names and week is None
    verdicts: list[TaskResult] = []
    if oracle == "torch" and find_spec("torch") is None:
        raise UsageError("PyTorch is not installed here. Without --oracle torch its recorded answers are used.")
    for the_day, its_tasks in by_day(tasks):
        heading = partial(report_heading, the_day, package, gap=bool(verdicts))
        try:
            results = grade_day(
                the_day,
                tasks=its_tasks,
                solution=solution,
                oracle=oracle,
                limits=limits,
                pytest_args=pytest_args,
                begin=(lambda: None) if everything else heading,
            )
        except NothingSelected:
            if len(by_day(tasks)) == 1:
                raise
            continue  # -k may mean the checks of another day
        progress.record(results)
        if everything:
            results = [r for r in results if r.status != "not started" and not holds_stub(r.task, package)]
            if results:
                heading()
        if results:
            report_results(results, package)
        verdicts += results
    if len({(r.task.week, r.task.day) for r in verdicts}) > 1:
        say()
        say(f"{sum(r.status == 'passed' for r in verdicts)} of {len(verdicts)} tasks passed in all.", bold=True)
    if not verdicts and pytest_args:
        raise UsageError(f"No check fits {' '.join(pytest_args)}.")
    if not verdicts:
        first = load_course().weeks[0].days[0]
        say(f"No task is started yet. Begin here: pdm run test --week {first.week} --day {first.number}")
    return 0 if verdicts and all(r.status == "passed" for r in verdicts) else 1


@cli.command()
@click.argument("name", metavar="1.1.2")
def hint(name: str) -> int:
    """Show the next of a task's three hints."""
    task = load_course().task(name)
    hints.show(task, hints.next_rung(task))
    return 0


@cli.command()
@click.option("--build", is_flag=True, help="Build it in book/book, and serve nothing.")
def book(build: bool) -> int:
    """Serve the book and open it in a browser; Ctrl-C ends it."""
    return run_mdbook(*(["build"] if build else ["serve", "--open"]), str(BOOK)).returncode


cli.add_command(status_cli.status)
cli.add_command(borrow_cli.borrow)
cli.add_command(borrow_cli.give_back)
cli.add_command(reset_cli.reset)
cli.add_command(watch.watch)
cli.add_command(check_cli.doctor)
cli.add_command(check_cli.check)
cli.add_command(engine_cli.generate)
cli.add_command(engine_cli.chat)
cli.add_command(bench_cli.bench)
cli.add_command(train_cli.train)
cli.add_command(tour.tour)
cli.add_command(compare.compare)
cli.add_command(export.export)
cli.add_command(sync.sync)
cli.add_command(dev_cli.dev)


def main() -> None:
    """Run a command; what the user got wrong is one line and exit code 2."""
    # A graded child ends with us, also when a terminal is closed or a supervisor has had enough.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows ?, and nothing breaks
    if width := columns(sys.stdout):
        click.Context.formatter_class = HelpText
    argv = sys.argv[1:]
    split = argv.index("--") if argv[:1] == ["test"] and "--" in argv else len(argv)
    try:
        status = cli.main(
            argv[:split],
            prog_name="pdm run",
            obj=tuple(argv[split + 1 :]),
            terminal_width=min(width, WIDEST) if width else None,
            standalone_mode=False,
        )
    except click.NoSuchOption as error:
        example = f"pytest's options come after a day and --: pdm run test 1.1 -- {error.option_name} ..."
        _fail(f"{error.format_message()} {example}" if argv[0] == "test" else error.format_message())
    except click.MissingParameter as error:
        usage = error.ctx.get_usage().split() if error.ctx else []
        _fail(" ".join([error.format_message(), *usage]))
    except click.ClickException as error:
        _fail(error.format_message())
    except UsageError as error:
        _fail(str(error))
    except LearnerError as error:
        say(str(error), err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        say("interrupted", err=True)
        sys.exit(130)
    sys.exit(status)


def _open_streams() -> None:
    """Where the three standard streams are closed, open them on nothing: a pipe would take their place, and mix."""
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(null)
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()


def _fail(message: str) -> None:
    say(message, err=True)
    sys.exit(2)
