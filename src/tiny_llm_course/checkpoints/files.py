"""Read files from outside the course: special files are refused, and every error is one line."""

import json
import stat
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from ..course.findings import shortened
from ..course.registry import UsageError

LARGEST_NUMBER = 1 << 62  # MLX takes no larger ones
TINY = 5e-324  # the smallest float above 0
LARGEST = 1 << 28  # bytes of a JSON file; tokenizer.json, the largest, has a tenth of that
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def must_be_file(file: Path) -> int:
    """Return a regular file's size in bytes; raise UsageError for a pipe or device, which may have no end."""
    try:
        found = file.stat()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if what := KINDS.get(stat.S_IFMT(found.st_mode)):
        raise UsageError(f"{file} is {what}, expected a file")
    return found.st_size


def read_text(file: Path) -> str:
    """Return the contents of a UTF-8 text file; raise UsageError if it cannot be read."""
    must_be_file(file)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: {error}") from error


def read_json(file: Path, required: bool = True) -> dict[str, Any]:
    """Return the object in a JSON file, or {} if it may be missing, and is; raise UsageError if it is invalid."""
    if not file.exists():
        if not required:
            return {}
        raise UsageError(f"{file} is missing")
    if (size := must_be_file(file)) > LARGEST:
        raise UsageError(f"{file} has {size} bytes, expected at most {LARGEST}")
    try:
        data = json.loads(read_text(file), object_pairs_hook=partial(unique, file))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{file} contains a JSON {type(data).__name__}, expected an object")
    return data


def unique(file: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object's entries; raise UsageError if a key occurs twice."""
    if len(table := dict(pairs)) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise UsageError(f"{file} has the key {shortened(repr(twice))} twice in one object, expected once")
    return table


def check_number(file: Path, name: str, value: Any, least: float = 1, most: float = LARGEST_NUMBER) -> None:
    """Raise UsageError unless an entry is a number in range; a whole number, if `least` is an int."""
    whole = type(least) is int
    if type(value) not in ((int,) if whole else (int, float)) or not least <= value <= most:
        low = "above 0" if (least == 1 and whole) or 0 < least < 1 else f"of at least {least:g}"
        high = "below 2**62" if most == LARGEST_NUMBER else f"at most {most}"
        kind = "whole number" if whole else "number"
        raise UsageError(f"{file} has {name} = {shortened(repr(value))}, expected a {kind} {low} and {high}")
