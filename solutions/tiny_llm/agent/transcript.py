"""The record of a run: a line of JSON for each entry, complete up to the last moment before a crash."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Transcript:
    """A file to which entries are appended."""

    def __init__(self, path: Path) -> None:
        """Open a file, to continue it if it exists.

        A process that is killed may leave half a line at the end, without a line break. It is cut off, so that the next
        entry begins a line of its own.
        """
        path.touch()
        data = path.read_bytes()
        self._file = path.open("r+b")
        self._file.truncate(data.rfind(b"\n") + 1)
        self._file.seek(0, os.SEEK_END)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write an entry as one line of JSON, and hand it to the operating system before returning.

        All texts can be written, also those that are no valid Unicode: JSON's escapes have only ASCII.
        """
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        """Return the entries of a file, in order.

        A line ends with a line feed, and with nothing else: a JSON text may contain U+2028 as it is. A last line
        without a line feed is half an entry and is left out. The file is not changed: a run may be writing it.

        Raises:
            ValueError: another line is not a JSON object in UTF-8. The message has its number, from 1.
        """
        entries = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
            try:
                entry = json.loads(line.decode())
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is not JSON: {error}") from None
            if not isinstance(entry, dict):
                raise ValueError(f"line {number} of {path} is not a JSON object")
            entries.append(entry)
        return entries
