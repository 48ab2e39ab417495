"""The command line: `pdm run NAME` and `tiny-llm NAME` are the same."""

import io
import os
import signal
import sys

import click

from ..course.registry import UsageError
from ..doctor.strangers import hiding
from ..programs.packages import LearnerError
from ..terminal.help_text import WIDEST, HelpText
from ..terminal.screen import columns, say
from .groups import Commands, explained

# Where each command is. Only the one that is typed is imported: all of them take longer than most of them run.
SECTIONS = {
    "Every day": {
        "test": ".test:test",
        "watch": ".watch.command:watch",
        "status": ".status:status",
        "hint": ".history:hint",
        "case": ".case:case",
        "history": ".history:history",
        "quiz": ".quiz:quiz",
    },
    "When a task has passed, or will not": {
        "compare": ".compare:compare",
        "borrow": ".borrow:borrow",
        "return": ".borrow:give_back",
        "reset": ".reset:reset",
    },
    "What you have built": {
        "generate": ".generate:generate",
        "chat": ".generate:chat",
        "serve": ".serve:serve",
        "attention": ".attention.command:attention",
        "bench": ".bench:bench",
        "build-ext": ".tools:build_ext",
        "train": ".train:train",
    },
    "The course": {
        "tour": ".tour:tour",
        "book": ".tools:book",
        "sync": ".sync:sync",
        "doctor": ".tools:doctor",
        "export": ".export.command:export",
    },
    "To work on the course itself": {
        "test-all": ".test_all:test_all",
        "check": ".tools:check",
        "dev": ".dev:dev",
    },
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
    except ImportError:
        if not (found := hiding()):
            raise
        _fail(f"{next(iter(found.values()))} Rename it, or move it out of src.")
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
