"""The command line: `pdm run NAME` and `tiny-llm NAME` are the same."""

import io
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import click

from . import progress
from .grading import Limits, grade_day
from .packages import LearnerError
from .paths import BOOK, LEARNER, ROOT, SOLUTION, TESTS
from .registry import Day, Task, UsageError, load_course, resolve
from .report import chapter, holds_stub, report_heading, report_results, say
from .results import TaskResult


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """tiny-llm: build an LLM inference engine, day by day, every line graded."""


@cli.command()
@click.argument("names", nargs=-1, metavar="[1.1.2 | 1.1]...")
@click.option("--week", type=int, help="The week to grade, together with --day.")
@click.option("--day", type=int, help="The day to grade.")
@click.option("--solution", is_flag=True, help="Grade solutions/tiny_llm instead of src/tiny_llm.")
@click.option("--full", is_flag=True, help="Show pytest's own output, without limits of time and memory.")
@click.option(
    "--oracle",
    type=click.Choice(["recorded", "torch"]),
    default="recorded",
    help="PyTorch's answers: recorded or live.",
)
@click.option("--time-limit", type=click.FloatRange(min=0.1), default=Limits.seconds, help="Seconds a task may take.")
@click.option("--memory-limit", type=click.FloatRange(min=0.1), default=Limits.memory / 2**30, help="GB it may take.")
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
    """Grade a day (--week 1 --day 1, or 1.1), a task (1.1.2), or everything you have started (nothing).

    What stands after -- goes to pytest: pdm run test --week 1 --day 1 -- -k task_1
    """
    selected = _selected(names, week, day, solution)
    if full:
        return _run_pytest(selected, ["--oracle", oracle, *(["--solution"] * solution), *pytest_args])
    limits = Limits(time_limit, int(memory_limit * 2**30))
    package = (SOLUTION if solution else LEARNER).relative_to(ROOT).as_posix()
    everything = not names and week is None
    verdicts: list[TaskResult] = []
    if oracle == "torch" and find_spec("torch") is None:
        raise UsageError("PyTorch is not installed here. Without --oracle torch its recorded answers are used.")
    for the_day, tasks in _by_day(selected):
        results = grade_day(
            the_day,
            tasks=tasks,
            solution=solution,
            oracle=oracle,
            limits=limits,
            pytest_args=pytest_args,
            begin=lambda day=the_day: None if everything else report_heading(day, package),  # type: ignore[misc]
        )
        if everything:
            results = [r for r in results if r.status != "not started" and not holds_stub(r.task, package)]
            if results:
                report_heading(the_day, package)
        if results:
            report_results(results, package)
        verdicts += results
    if not verdicts:
        first = load_course().weeks[0].days[0]
        say(f"No task is started yet. Begin here: pdm run test --week {first.week} --day {first.number}")
    return 0 if verdicts and all(r.status == "passed" for r in verdicts) else 1


@cli.command()
@click.argument("name", metavar="1.1.2")
def hint(name: str) -> int:
    """Show the next of a task's three hints."""
    task = load_course().task(name)
    seen = progress.hints_seen(task.id)
    rung = min(seen + 1, len(task.hints))
    say(f"{task.id} {task.title}, hint {rung} of {len(task.hints)}", bold=True)
    say(task.hints[rung - 1])
    if rung < len(task.hints):
        say(f"The next one: pdm run hint {task.id}")
    else:
        say(f"That was the last one. The chapter: {chapter(task)}")
    progress.hint_shown(task.id, rung)
    return 0


def engine_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options of every command that runs the engine."""
    own = "default: the model's own setting"
    for option in reversed(
        [
            click.option("--solution", is_flag=True, help="Run the solved engine instead of yours."),
            click.option("--model", help="A checkpoint's folder or Hub id (default: the embedded model)."),
            click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="Of the weights."),
            click.option("--max-tokens", type=click.IntRange(min=1), default=256, show_default=True),
            click.option(
                "--temp", type=click.FloatRange(min=0), help=f"Temperature, 0 for the likeliest token ({own}, or 0.7)."
            ),
            click.option("--top-k", type=click.IntRange(min=0), help=f"0 is off ({own})."),
            click.option("--top-p", type=click.FloatRange(0, 1), help=f"1 is off ({own})."),
            click.option("--min-p", type=click.FloatRange(0, 1), help=f"0 is off ({own})."),
            click.option(
                "--repetition-penalty", type=click.FloatRange(min=0, min_open=True), help=f"1 is off ({own})."
            ),
            click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="The same seed gives the same text."),
        ]
    ):
        command = option(command)
    return command


@cli.command()
@click.argument("prompt")
@engine_options
def generate(
    prompt: str, solution: bool, model: str | None, dtype: str | None, max_tokens: int, **sampling: float | None
) -> int:
    """Continue a text: pdm run generate "Once upon a time".

    The text goes to stdout, the figures to stderr. Ctrl-C ends the text; the exit code is 130 then.
    """
    from . import engine, talk

    runner = engine.load_engine(model, solution, dtype)
    return talk.generate(runner, prompt, max_tokens, engine.Sampling(**sampling))  # type: ignore[arg-type]


@cli.command()
@engine_options
def chat(solution: bool, model: str | None, dtype: str | None, max_tokens: int, **sampling: float | None) -> int:
    """Talk with a model; /help says how."""
    from . import engine, talk

    runner = engine.load_engine(model, solution, dtype)
    return talk.chat(runner, max_tokens, engine.Sampling(**sampling))  # type: ignore[arg-type]


@cli.group()
def dev() -> None:
    """For those who work on the course itself."""


@dev.command("stubs")
@click.option("--check", is_flag=True, help="Write nothing; fail if the committed stubs are not the generated ones.")
def dev_stubs(check: bool) -> int:
    """Generate src/tiny_llm from solutions/tiny_llm."""
    from . import stubs

    if not check:
        stubs.write_stubs(SOLUTION, LEARNER, load_course())
        return 0
    differences = stubs.differences(SOLUTION, LEARNER, load_course())
    for line in differences:
        say(line)
    say("Generate them anew: pdm run dev stubs" if differences else "The stubs are current.")
    return 1 if differences else 0


@dev.command("book")
def dev_book() -> int:
    """Make what the book holds of other files: signatures, hints, tables of tasks, pictures."""
    from . import listings

    for script in sorted((BOOK / "figures").glob("*.py")):
        runpy.run_path(str(script), run_name="__main__")
    for name in listings.write():
        say(f"book/src/generated/{name}: changed")
    return 0


@dev.command("record")
@click.option("--week", type=int, required=True)
@click.option("--day", type=int, required=True)
def dev_record(week: int, day: int) -> int:
    """Record PyTorch's answers for the tests of a day. Needs PyTorch."""
    return _run_pytest(load_course().day(week, day).tasks, ["--solution", "--oracle", "record", "-q"])


@dev.command("transcripts")
@click.argument("names", nargs=-1)
def dev_transcripts(names: tuple[str, ...]) -> int:
    """Record what a learner sees (all scenarios, or the named ones), to be read and committed."""
    from . import transcripts

    known = {scenario.name: scenario for scenario in transcripts.scenarios()}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"There is no scenario {unknown[0]}. Scenarios: {', '.join(known)}.")
    for name in names or known:
        say(f"{name}: {'changed' if transcripts.record(known[name]) else 'the same'}")
    return 0


@dev.command("check")
@click.argument("days", nargs=-1, metavar="[1.1]...")
@click.option("--json", "as_json", is_flag=True, help="Print the whole table as JSON.")
def dev_check(days: tuple[str, ...], as_json: bool) -> int:
    """Let the course prove itself: stubs fail, the solution passes, every known mistake is caught and named."""
    from . import course_check

    chosen = [task for name in days for task in resolve(load_course(), name)] or load_course().tasks()
    return course_check.main([day for day, _ in _by_day(chosen)], as_json)


def _selected(names: Sequence[str], week: int | None, day: int | None, solution: bool) -> Sequence[Task]:
    course = load_course()
    if names and (week is not None or day is not None):
        raise UsageError("Name a task or a day either as 1.1.2 or with --week and --day, not both.")
    if names:
        chosen = [task for name in names for task in resolve(course, name)]
        return list(dict.fromkeys(chosen))
    if week is None and day is not None:
        raise UsageError(f"--day {day} needs a week: pdm run test --week 1 --day {day}")
    if week is not None and day is None:
        days = course.week(week).days
        if solution:
            return [task for d in days for task in d.tasks]
        numbers = ", ".join(str(d.number) for d in days)
        raise UsageError(f"--week {week} needs a day (of {numbers}): pdm run test --week {week} --day {days[0].number}")
    if week is not None and day is not None:
        return course.day(week, day).tasks
    return course.tasks()


def _by_day(tasks: Sequence[Task]) -> list[tuple[Day, list[Task]]]:
    grouped: dict[tuple[int, int], list[Task]] = {}
    for task in tasks:
        grouped.setdefault((task.week, task.day), []).append(task)
    return [(load_course().day(*key), grouped[key]) for key in sorted(grouped)]


def _run_pytest(tasks: Sequence[Task], options: Sequence[str]) -> int:
    """Raw pytest on some tasks, in this terminal. Our exit codes: 0 passed, 1 failed, 2 wrong use."""
    files = [str(TESTS / f"week{day.week}" / f"test_day{day.number}.py") for day, _ in _by_day(tasks)]
    command = [sys.executable, "-m", "pytest", *files, *(f"--task={task.id}" for task in tasks), *options]
    status = subprocess.run(command, cwd=ROOT).returncode
    return status if status in (0, 1) else 1 if status < 0 else 2


def main() -> None:
    """Run a command; what the user got wrong is one line and exit code 2."""
    # A graded child ends with us, also when a terminal is closed or a supervisor has had enough.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ✓ shows ?, and nothing breaks
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    try:
        status = cli.main(argv[:split], prog_name="pdm run", obj=tuple(argv[split + 1 :]), standalone_mode=False)
    except click.NoSuchOption as error:
        example = f"pdm run test 1.1 -- {error.option_name} ..."
        _fail(f"{error.format_message()} pytest's options come after a day and --: {example}")
    except click.MissingParameter as error:
        _fail(f"{error.format_message()} {error.ctx.get_usage() if error.ctx else ''}")
    except click.ClickException as error:
        _fail(error.format_message())
    except UsageError as error:
        _fail(str(error))
    except LearnerError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(status)


def _fail(message: str) -> None:
    click.echo(message, err=True)
    sys.exit(2)
