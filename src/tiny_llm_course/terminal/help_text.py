"""The layout of `--help` on a terminal, including terminals narrower than click expects."""

import textwrap
from collections.abc import Iterable

import click

from .wrapping import cells, wrapped

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
