"""The commands for those who work on the course itself: `pdm run dev NAME`."""

import runpy

import click

from .command_group import Commands
from .paths import BOOK, LEARNER, SOLUTION
from .registry import UsageError, load_course, resolve
from .screen import say
from .selection import by_day, run_pytest


@click.group(cls=Commands, short_help="Generate stubs and listings, record, prove the course.")
@click.pass_context
def dev(ctx: click.Context) -> int:
    """For those who work on the course itself."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


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


@dev.command("bench")
@click.argument("names", nargs=-1, metavar="[1.1]...")
def dev_bench(names: tuple[str, ...]) -> int:
    """Measure our solution (all days, or the named ones) and record it, for the book. On a quiet machine."""
    from . import benchmarks

    chosen = [benchmarks.find(name) for name in names] or benchmarks.measurements(load_course())
    package = benchmarks.choose(solution=True)
    for measurement in chosen:
        found = benchmarks.run(measurement, package)
        measurement.record.write_text(benchmarks.as_json(found), encoding="utf-8", newline="\n")
        say(f"{measurement.name}: {found['see']}")
    say("Next, the pages that show it: pdm run dev book")
    return 0


@dev.command("record")
@click.option("--week", type=int, required=True)
@click.option("--day", type=int, required=True)
def dev_record(week: int, day: int) -> int:
    """Record PyTorch's answers for the tests of a day. Needs PyTorch."""
    return run_pytest(load_course().day(week, day).tasks, ["--solution", "--oracle", "record", "-q"])


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
    return course_check.main([day for day, _ in by_day(chosen)], as_json)
