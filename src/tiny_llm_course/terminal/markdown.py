"""Prints Markdown: with styles on a terminal, as plain text elsewhere."""

import sys

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Column, Table
from rich.theme import Theme

from .screen import USUAL, columns, in_colour

# The terminal's own colours and background.
THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "cyan"})


def show(markdown: str, before: str = "") -> None:
    """Print Markdown with `before` ahead of its first line; the other lines align with the text."""
    console = Console(
        color_system="auto" if in_colour(sys.stdout) else None,
        width=columns(sys.stdout) or USUAL,
        theme=THEME,
        highlight=False,
    )
    table = Table.grid(Column(width=len(before)), Column())
    table.add_row(before, Markdown(markdown, code_theme="ansi_dark"))
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines).rstrip("\n"), flush=True)
