"""The command line; `pdm run NAME` and `tiny-llm NAME` are the same."""

import errno
import io
import os
import signal
import sys
import tomllib
from pathlib import Path

import click

from ..course.registry import LearnerError, UsageError
from ..doctor.shadowing import shadowing_files
from ..terminal.screen import columns, nowhere_to_write, say
from .groups import WIDEST, Commands, HelpText, explained

# Only the command that runs is imported: importing all takes a second.
SECTIONS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of an output: it has no file name


@click.group(
    cls=Commands,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Your progress and next step: pdm run status",
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
    """List all commands, or show the help of one."""
    cli.main([*names, "--help"], prog_name="pdm run", terminal_width=ctx.terminal_width, standalone_mode=False)
    return 0


def main() -> None:
    """Run a command. A usage error prints one line and exits with 2."""
    # Exit through `finally` blocks, which end the graded child, when a terminal closes or a supervisor sends SIGTERM.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the encoding has no ✓
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
        if not (found := shadowing_files()):
            raise
        _fail(f"{next(iter(found.values()))} Rename it, or move it out of src.")
    except MemoryError as error:
        say(f"There is not enough memory: {error or 'an array does not fit'}.", err=True)
        sys.exit(1)
    except LearnerError as error:
        say(str(error), err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename:
            raise
        sys.exit(nowhere_to_write(error))
    except (KeyboardInterrupt, click.Abort):
        say("interrupted", err=True)
        sys.exit(130)
    sys.exit(status)


def _open_streams() -> None:
    """Open closed standard streams on the null device, so that a later pipe does not take their descriptor."""
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(null)
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()


def _fail(message: str) -> None:
    say(message, err=True)
    sys.exit(2)
