"""Maintainers' commands: `pdm run dev NAME`."""

import runpy
import subprocess
import sys

import click

from ..course.file_paths import name_of
from ..course.registry import UsageError, load_course, resolve
from ..paths import BOOK, LEARNER, ROOT, SOLUTION, make_importable
from ..terminal.screen import say
from .groups import Commands
from .test import run_pytest


@click.group(cls=Commands)
@click.pass_context
def dev(ctx: click.Context) -> int:
    """Maintainers' commands."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@dev.command("new-day")
@click.argument("name", metavar="2.1")
@click.option("--title", default="", help="What the day is about.")
@click.option("--week-title", default="", help="What the week is about, if the day is its first.")
@click.option("--target", default="", metavar="MODULE:NAME", help="The function that its placeholder task asks for.")
def dev_new_day(name: str, title: str, week_title: str, target: str) -> int:
    """Scaffold a day: one file of each kind that a day has; for a registered day, only the missing ones."""
    from ..dev import new_day

    files = new_day.scaffold(name, title, week_title, target)
    new_day.write(files)
    say("\n".join(map(name_of, files)))
    for generating in ("stubs", "book"):  # in new processes, which read the changed registry
        status = subprocess.run([sys.executable, "-m", "tiny_llm_course", "dev", generating], cwd=ROOT).returncode
        if status:
            return status
    say(f"What is still missing: pdm run dev check {name}")
    say(f"When it is written, generate and record what it shows: pdm run dev refresh {name}")
    return 0


@dev.command("stubs")
@click.option("--check", is_flag=True, help="Write nothing; fail if the committed stubs are out of date.")
def dev_stubs(check: bool) -> int:
    """Generate src/tiny_llm from solutions/tiny_llm."""
    from ..source.package import differences, write_stubs

    if not check:
        write_stubs(SOLUTION, LEARNER, load_course())
        return 0
    found = differences(SOLUTION, LEARNER, load_course())
    say("\n".join([*found, "To regenerate them: pdm run dev stubs" if found else "The stubs are current."]))
    return 1 if found else 0


@dev.command("book")
@click.argument("names", nargs=-1, metavar="[5.1]...")
@click.option("--fresh", is_flag=True, help="Regenerate also files whose inputs have not changed.")
def dev_book(names: tuple[str, ...], fresh: bool) -> int:
    """Regenerate the book's generated parts (all, or those of days): signatures, hints, task tables, pictures."""
    from ..dev.book import current

    days = [load_course().day_of(resolve(load_course(), name)[0]) for name in names]
    try:
        made = current.refresh(current.names_for(days) if days else None, fresh)
    except (OSError, ValueError) as error:  # a file, a target or a quiz's known mistake is missing
        raise UsageError(f"Nothing is changed: {error}") from error
    changed = [name for name, has_changed in made.items() if has_changed]
    for name in changed:
        say(f"book/src/generated/{name}.md: changed")
    say(f"{len(made)} files regenerated, {len(changed)} changed; all other inputs are unchanged.")
    make_importable()
    for script in sorted((BOOK / "figures").glob("*.py")):  # some show a generated part
        runpy.run_path(str(script), run_name="__main__")
    return 0


@dev.command("refresh")
@click.argument("name", metavar="5.1")
@click.option("--bench", is_flag=True, help="Measure again even if a record exists. On a quiet machine.")
def dev_refresh(name: str, bench: bool) -> int:
    """Generate and record what a day shows: stubs, PyTorch's answers, benchmark, transcripts, listings."""
    from ..dev import refresh

    return refresh.main(load_course().day_of(resolve(load_course(), name)[0]), bench)


@dev.command("bench")
@click.argument("names", nargs=-1, metavar="[1.1]...")
def dev_bench(names: tuple[str, ...]) -> int:
    """Benchmark our solution (all days, or the named ones) and record it for the book. On a quiet machine."""
    from ..measuring import benches

    chosen = [benches.find(name) for name in names] or benches.measurements(load_course())
    package = benches.choose(solution=True)
    for measurement in chosen:
        found = benches.run(measurement, package)
        measurement.record.write_text(benches.as_json(found), encoding="utf-8", newline="\n")
        say(f"{measurement.name}: {found['see']}")
    say("Next, the pages that show it: pdm run dev book")
    return 0


@dev.command("record")
@click.option("--week", type=int, required=True)
@click.option("--day", type=int, required=True)
def dev_record(week: int, day: int) -> int:
    """Record PyTorch's answers for a day's tests. Needs PyTorch."""
    return run_pytest(load_course().day(week, day).tasks, ["--solution", "--oracle", "record", "-q"])


@dev.command("transcripts")
@click.argument("names", nargs=-1)
def dev_transcripts(names: tuple[str, ...]) -> int:
    """Record what a learner sees (all scenarios, or the named ones), to be reviewed and committed."""
    from ..dev import transcripts

    known = {scenario.name: scenario for scenario in transcripts.scenarios()}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"There is no scenario {unknown[0]}. Scenarios: {', '.join(known)}.")
    for name in names or known:
        say(f"{name}: {'changed' if transcripts.record(known[name]) else 'the same'}")
    return 0


@dev.command("english")
def dev_english() -> int:
    """List the phrases that the course avoids in pages, docstrings, comments and messages; fail if there are any."""
    from ..dev import english

    return english.main()


@dev.command("slips")
@click.argument("name", metavar="5.1")
def dev_slips(name: str) -> int:
    """List the slips of our solution that a day's checks do not notice: some are holes in the tests."""
    from ..dev import unnoticed

    return unnoticed.main(resolve(load_course(), name))


@dev.command("check")
@click.argument("names", nargs=-1, metavar="[1.1]...")
@click.option("--json", "as_json", is_flag=True, help="Print the full table as JSON.")
@click.option("--fresh", is_flag=True, help="Prove everything again, ignoring kept proofs.")
@click.option("--again", default=0, metavar="N", help="Prove N kept proofs again, chosen by the commit hash.")
def dev_check(names: tuple[str, ...], as_json: bool, fresh: bool, again: int) -> int:
    """Prove the course: stubs fail, the solution passes, every known mistake is caught and named."""
    from ..dev import check

    chosen = [task for name in names for task in resolve(load_course(), name)]
    return check.main(list(dict.fromkeys(chosen)) or load_course().tasks(), as_json, fresh, again)
