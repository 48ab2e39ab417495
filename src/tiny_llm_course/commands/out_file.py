"""Output files, which never overwrite a file of another kind, and a status line for long work."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..course.registry import UsageError

LARGEST = 1 << 24  # bytes, over 100 times what these commands write


def must_be_writable(file: Path, kind: str, is_one: Callable[[bytes], bool]) -> None:
    """Raise UsageError, before the work, if `file` cannot be written or holds something other than a `kind`."""
    if not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise UsageError(f"{file} cannot be written: {file.parent} is not a writable folder.")
    if not file.is_file() or not (size := file.stat().st_size):
        return
    try:
        ours = size <= LARGEST and is_one(file.read_bytes())
    except OSError:
        ours = False
    if not ours:
        raise UsageError(f"{file} exists and is not an earlier {kind}: name another file, or delete it first.")


def must_take_measurement(record: Path | None, drawing: Path | None, *keys: str) -> None:
    """Check the record, which has these keys, and the drawing of a measurement, if they are named."""

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
    """Return whether a file with these contents is one of our SVGs."""
    return contents.startswith(b"<svg ")


def write(file: Path, text: str) -> None:
    """Write the file; raise UsageError if that fails."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a line on the terminal while the block runs. No animation: it would disturb the measurement."""
    shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if shown:
        print(f"{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
