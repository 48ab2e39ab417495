"""Prints Markdown: laid out, with its emphasis where there is a terminal, and as plain text elsewhere."""

import sys

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.theme import Theme

from .screen import USUAL, columns, in_colour

# The terminal's own colours, on its own ground, whatever that is.
THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "cyan"})


def show(markdown: str, before: str = "") -> None:
    """Print a text in Markdown, its first line behind `before`, its others below its own beginning."""
    console = Console(
        color_system="auto" if in_colour(sys.stdout) else None,
        width=columns(sys.stdout) or USUAL,
        theme=THEME,
        highlight=False,
    )
    table = Table.grid()
    table.add_column(width=len(before))
    table.add_column()
    table.add_row(before, Markdown(markdown, code_theme="ansi_dark"))
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines).rstrip("\n"), flush=True)
