"""`pdm run book`: the book in the learner's browser."""

import click

from ..dev.book.mdbook import run_mdbook
from ..paths import BOOK


@click.command(short_help="Show the book in your browser.")
@click.option("--build", is_flag=True, help="Build it in book/book, and serve nothing.")
def book(build: bool) -> int:
    """Serve the book and open it in a browser; Ctrl-C ends it."""
    return 1 if run_mdbook(*(["build"] if build else ["serve", "--open"]), str(BOOK)).returncode else 0
