"""Reading files from outside: what is no file is refused, not waited for, and whatever is wrong is one line."""

import json
import stat
from pathlib import Path
from typing import Any

from ..course.registry import UsageError

LARGEST = 1 << 28  # bytes of a JSON file; tokenizer.json, the longest, has a tenth of it
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def must_be_file(file: Path) -> int:
    """The bytes of an ordinary file. A pipe would be waited for, perhaps for ever, and a device may have no end.

    Raises:
        UsageError: it is none, or cannot be looked at.
    """
    try:
        found = file.stat()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if what := KINDS.get(stat.S_IFMT(found.st_mode)):
        raise UsageError(f"{file} is {what}, expected a file")
    return found.st_size


def read_text(file: Path) -> str:
    """The contents of a text file, in UTF-8.

    Raises:
        UsageError: it is no file, cannot be read, or is not UTF-8.
    """
    must_be_file(file)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8: {error}") from error


def read_json(file: Path, required: bool = True) -> dict[str, Any]:
    """The object in a JSON file; nothing if the file may be missing, and is.

    Raises:
        UsageError: it is missing, cannot be read, or holds something else.
    """
    if not file.exists():
        if not required:
            return {}
        raise UsageError(f"{file} is missing")
    if (size := must_be_file(file)) > LARGEST:
        raise UsageError(f"{file} has {size} bytes, expected at most {LARGEST}")
    try:
        data = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{file} holds a JSON {type(data).__name__}, expected an object")
    return data
