"""A click group that lists its commands in sections, and the messages for command lines that click rejects."""

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from ..course.registry import UsageError, load_course, resolve, with_commands
from ..terminal.wrapping import cells, wrapped

WIDEST = 80  # columns; longer lines are hard to read


class HelpText(click.HelpFormatter):
    """A click formatter with our line breaks: it breaks no word or command, and keeps room for the descriptions."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line."""
        begin = f"{prefix or 'Usage: '}{prog} "
        # Not `wrapped`: a usage line is not for copying, so it breaks without backslashes, and never inside `[1.1]...`.
        parts = textwrap.wrap(begin + args, self.width, subsequent_indent="  ", break_long_words=False)
        self.write("\n".join(parts) + "\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        self.write("\n\n".join(self._block(paragraph, self.current_indent) for paragraph in paragraphs) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names on the left and descriptions on the right, or below a name too long for its column."""
        rows = list(rows)
        widest = min(max((cells(name) for name, _ in rows), default=0), col_max, (self.width - 20) // 2)
        column = self.current_indent + widest + col_spacing
        for name, meaning in rows:
            left = f"{' ' * self.current_indent}{name}"
            right = self._block(meaning, column)
            if not meaning:
                right = left
            elif cells(name) <= widest and right.startswith(" " * column):
                right = f"{left}{right[cells(left) :]}"
            else:
                right = f"{left}\n{right}"
            self.write(f"{right}\n")

    def _block(self, text: str, indent: int) -> str:
        """Return wrapped, indented text, with less indentation if a word needs the width."""
        longest = max(map(cells, text.split()), default=0)
        margin = " " * max(0, min(indent, self.width - longest))
        return "\n".join(f"{margin}{line}" for line in wrapped(text, self.width - len(margin), hanging=False))


Sections = Mapping[str, Mapping[str, Sequence[str]]]
ALIKE = 0.6  # difflib ratio from which a name is suggested


class Commands(click.Group):
    """A group that imports its commands on use: `{title: {name: [".module:function", "What it does."]}}`."""

    def __init__(self, *args: Any, sections: Sections | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "invoke_without_command": True})
        self.sections = sections or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, imported or not."""
        return sorted({*self.commands, *(name for places in self.sections.values() for name in places)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name, importing it on first use."""
        found = next((places[cmd_name] for places in self.sections.values() if cmd_name in places), None)
        if found and cmd_name not in self.commands:
            module, _, function = found[0].partition(":")
            command: click.Command = getattr(import_module(module, __package__), function)
            command.short_help = found[1]
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands section by section, then those in none."""
        known = {name: words for names in self.sections.values() for name, (_, words) in names.items()}
        rest = sorted(name for name, command in self.commands.items() if not command.hidden and name not in known)
        widest = max(map(len, [*known, *rest]))
        known |= {name: self.commands[name].get_short_help_str(formatter.width - widest - 6) for name in rest}
        for title, names in (*self.sections.items(), ("More" if self.sections else "Commands", rest)):
            if rows := [(f"{name:<{widest}}", known[name]) for name in names]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the typed command; raise UsageError, with the closest name, if there is none."""
        name, *rest = args
        if self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        wrong = f"There is no command {name!r}."
        begun = [command for command in self.list_commands(ctx) if command.startswith(name.lower())]
        near = begun if len(begun) == 1 else get_close_matches(name.lower(), self.list_commands(ctx), 1, ALIKE)
        if near:
            raise UsageError(f"{wrong} Did you mean:", f"{ctx.command_path} {shlex.join([near[0], *rest])}")
        if ctx.parent is None and _is_task(name):
            raise UsageError(f"{wrong} Did you mean:", f"{ctx.command_path} test {name}")
        raise UsageError(f"{wrong} All of them:", f"{ctx.command_path} {'--help' if ctx.parent else 'help'}")


def explained(error: click.ClickException, argv: Sequence[str]) -> str:
    """Return what is wrong with a command line that click rejects, and what to type."""
    what = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:  # click sets no context for an option without its value
        return with_commands(what, f"pdm run {shlex.join(argv[:1])} --help")
    if isinstance(error, click.NoSuchOption):
        options = [name for parameter in context.command.get_params(context) for name in parameter.opts]
        with_one_dash = next((f"-{word}" for word in argv if f"-{word}" in options), "")
        if with_one_dash:
            return f"No such option {with_one_dash[1:]!r}. Did you mean {with_one_dash!r}?"
        if context.parent is None:
            return with_commands(f"{what} Options come after the command:", f"{context.command_path} help")
        if context.info_name == "test" and not error.possibilities:
            what += " pytest's options come after a day and --:"
            return with_commands(what, f"{context.command_path} 1.1 -- {error.option_name} ...")
    return with_commands(what, f"{context.command_path} --help")


def _is_task(name: str) -> bool:
    try:
        return bool(resolve(load_course(), name))
    except UsageError:
        return False
