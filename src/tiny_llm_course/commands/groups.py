"""A click group that lists its commands in sections, and the messages for command lines that click rejects."""

import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from ..course.registry import UsageError, load_course, resolve, with_commands

ALIKE = 0.6  # difflib ratio from which a name is suggested


class Commands(click.Group):
    """A group that lists its commands by section and imports them on use: `{title: {name: ".module:function"}}`."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "invoke_without_command": True})
        self.sections = sections or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, imported or not."""
        return sorted({*self.commands, *(name for places in self.sections.values() for name in places)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name, importing it on first use."""
        place = next((places[cmd_name] for places in self.sections.values() if cmd_name in places), None)
        if place and cmd_name not in self.commands:
            module, _, function = place.partition(":")
            self.add_command(getattr(import_module(module, __package__), function), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands section by section, then those in none."""
        every = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        known = {name: command for name, command in every if command and not command.hidden}
        rest = known.keys() - {name for names in self.sections.values() for name in names}
        widest = max(map(len, known))
        room = formatter.width - widest - 6
        for title, names in (*self.sections.items(), ("More" if self.sections else "Commands", sorted(rest))):
            if rows := [(f"{n:<{widest}}", known[n].get_short_help_str(room)) for n in names if n in known]:
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
        if near := get_close_matches(name.lower(), self.list_commands(ctx), 1, ALIKE):
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
