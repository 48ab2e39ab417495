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
from .child_process import Limits
from .command_group import Commands, explained
from .functions import holds_stub
from .grading import Ends, NothingSelected, grade_day
from .help_text import WIDEST, HelpText
from .mdbook import run_mdbook
from .options import Finite, names_of_tasks
from .packages import LearnerError
from .paths import BOOK, LEARNER, ROOT, SOLUTION
from .registry import UsageError, load_course
from .report import Room, faults, report_heading, report_results, report_sum
from .results import TaskResult
from .screen import columns, say
from .selection import by_day, one_task, run_pytest, selected

SECTIONS = {
    "Every day": ("test", "watch", "status", "hint"),
    "When a task has passed, or will not": ("compare", "borrow", "return", "reset"),
    "What you have built": ("generate", "chat", "bench", "train"),
    "The course": ("tour", "book", "sync", "doctor", "export"),
    "To work on the course itself": ("check", "dev"),
}


@click.group(
    cls=Commands,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Where you are, and what to do next: pdm run status",
)
@click.pass_context
def cli(ctx: click.Context) -> int:
    """tiny-llm: build an LLM inference engine, day by day, every line graded."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@cli.command("help", hidden=True, short_help="List all commands.")
@click.argument("names", nargs=-1, metavar="[COMMAND]")
@click.pass_context
def help_(ctx: click.Context, names: tuple[str, ...]) -> int:
    """List all commands, or say what one of them takes."""
    cli.main([*names, "--help"], prog_name="pdm run", terminal_width=ctx.terminal_width, standalone_mode=False)
    return 0


@cli.command(short_help="Grade all that you have started, a task, a day or a week.")
@names_of_tasks
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
    """Grade a task (1.1.2), a day (1.1, or --week 1 --day 1) or a week (1); else everything you have started.

    What stands after -- goes to pytest: pdm run test --week 1 --day 1 -- -k task_1
    """
    tasks = selected(names, week, day)
    if full:
        return run_pytest(tasks, ["--oracle", oracle, *(["--solution"] * solution), *pytest_args])
    limits = Limits(time_limit, int(memory_limit * 2**30))
    package = (SOLUTION if solution else LEARNER).relative_to(ROOT).as_posix()
    everything = not names and week is None
    verdicts: list[TaskResult] = []
    lent = progress.borrowed()
    room = Room.of(t for t in tasks if solution or not everything or t.id in lent or not holds_stub(t, LEARNER))
    ends = Ends()
    told: set[str] = set()
    remembered = True
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
                ends=ends,
                begin=(lambda: None) if everything else heading,
            )
        except NothingSelected:
            if len(by_day(tasks)) == 1:
                raise
            continue  # -k may mean the checks of another day
        remembered = progress.record(results) and remembered
        broken = {place: fault for place, fault in faults(results).items() if place not in told}
        told |= broken.keys()
        if everything:
            results = [r for r in results if r.status != "not started"]
            if results or broken:
                heading()
        if results or broken:
            report_results(results, package, broken, room)
        verdicts += results
    if room.several and verdicts:
        report_sum(verdicts, package)
    if not verdicts and pytest_args:
        raise UsageError(f"No check fits {' '.join(pytest_args)}.")
    if not verdicts and not told:
        first = load_course().weeks[0].days[0]
        say(f"No task is started yet. Begin here: pdm run test --week {first.week} --day {first.number}")
    if not remembered:
        say(progress.FORGOTTEN)
    return 0 if verdicts and all(r.status == "passed" for r in verdicts) else 1


@cli.command(short_help="Show the next of a task's three hints.")
@click.argument("names", nargs=-1, metavar="1.1.2")
def hint(names: tuple[str, ...]) -> int:
    """Show the next of a task's three hints."""
    task = one_task(names, "hint", lambda task: not watch.done(task))
    hints.show(task, hints.next_rung(task))
    return 0


@cli.command(short_help="Show the book in your browser.")
@click.option("--build", is_flag=True, help="Build it in book/book, and serve nothing.")
def book(build: bool) -> int:
    """Serve the book and open it in a browser; Ctrl-C ends it."""
    return 1 if run_mdbook(*(["build"] if build else ["serve", "--open"]), str(BOOK)).returncode else 0


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
    except click.ClickException as error:
        _fail(explained(error, argv[:split]))
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
