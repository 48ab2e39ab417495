"""`pdm run book`: the book in the learner's browser."""

import click

from ..dev.book.mdbook import build_book, run_mdbook
from ..paths import BOOK


@click.command(short_help="Show the book in your browser.")
@click.option("--build", is_flag=True, help="Build it in book/book, and serve nothing.")
def book(build: bool) -> int:
    """Serve the book and open it in a browser; Ctrl-C ends it."""
    done = build_book(BOOK / "book") if build else run_mdbook("serve", "--open", str(BOOK))
    return 1 if done.returncode else 0
