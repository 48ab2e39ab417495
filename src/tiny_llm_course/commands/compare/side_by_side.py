"""Puts code beside code, or below it where the terminal is narrow; in colour only on a terminal without NO_COLOR."""

import dataclasses
import sys

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ...terminal.screen import columns, in_colour, say

WIDE = 100  # columns from which two listings fit beside each other


@dataclasses.dataclass(frozen=True)
class Listing:
    """Some code to show: whose it is and where it stands, and its source, or None and why there is none."""

    title: str
    place: str
    source: str | None
    missing: str = ""


def show(left: Listing, right: Listing) -> None:
    """Print two listings, side by side if there is room."""
    console = _console()
    if console is None or console.width < WIDE:
        show_one(left)
        say()
        show_one(right)
        return
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    table.add_row(_rich(left), _rich(right))
    console.print(table)


def show_one(listing: Listing) -> None:
    """Print one listing over the whole width."""
    console = _console()
    if console:
        console.print(_rich(listing))
        return
    say(f"{listing.title}  ({listing.place})")
    say()
    for line in (listing.source or f"{listing.missing}\n").splitlines():
        say(f"    {line}".rstrip())


def _console() -> Console | None:
    """Where to print; None without a terminal."""
    if not sys.stdout.isatty():
        return None
    return Console(color_system="auto" if in_colour(sys.stdout) else None, width=columns(sys.stdout), highlight=False)


def _rich(listing: Listing) -> RenderableType:
    heading = Text.assemble((listing.title, "bold"), f"  {listing.place}", overflow="fold")
    if listing.source is None:
        return Group(heading, "", Text(listing.missing))
    # The terminal's own colours, which can be read on a light and on a dark ground.
    code = Syntax(listing.source, "python", theme="ansi_dark", background_color="default").highlight(listing.source)
    return Group(heading, "", *(_line(line) for line in code.split("\n")))


def _line(line: Text) -> Padding:
    """A line of code; what does not fit goes on below its own beginning, not at the margin."""
    margin = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[margin:] if line.plain.strip() else Text(), (0, 0, 0, 2 + margin))
