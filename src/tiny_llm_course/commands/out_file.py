"""A file that a command is told to write: never over something else, as `--out basics.py` would be typed in haste."""

import os
from collections.abc import Callable
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


def write(file: Path, text: str) -> None:
    """Write it.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
