"""What commands write besides their lines: files, never over something else, and a line on a terminal that waits."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..course.registry import UsageError

LARGEST = 1 << 24  # bytes; nothing that these commands write has a hundredth of it


def must_be_writable(file: Path, kind: str, is_one: Callable[[bytes], bool]) -> None:
    """To be called before the work whose outcome is written. A device or a pipe holds nothing that could be lost.

    Args:
        file: new, or empty, or one of its kind.
        kind: of file, as in "no earlier export".
        is_one: whether these contents are those of one.

    Raises:
        UsageError: it cannot be written, or is something else.
    """
    if not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise UsageError(f"{file} cannot be written: {file.parent} is not a folder that can be written to.")
    if not file.is_file() or not (size := file.stat().st_size):
        return
    try:
        ours = size <= LARGEST and is_one(file.read_bytes())
    except OSError:
        ours = False
    if not ours:
        raise UsageError(f"{file} is there already, and is no earlier {kind}: name another file, or delete it first.")


def must_take_measurement(record: Path | None, drawing: Path | None, *keys: str) -> None:
    """The same for the files that a measurement is written to, if they are named; its record has these keys."""

    def is_record(contents: bytes) -> bool:
        try:
            found = json.loads(contents)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and found.keys() >= {*keys}

    if record:
        must_be_writable(record, "record", is_record)
    if drawing:
        must_be_writable(drawing, "drawing", is_drawing)


def is_drawing(contents: bytes) -> bool:
    """Whether a file with these contents is one of our SVGs."""
    return contents.startswith(b"<svg ")


def write(file: Path, text: str) -> None:
    """Write it.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on a terminal what takes so long, and take it away again. Nothing turns meanwhile: it would be measured."""
    shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if shown:
        print(f"{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
