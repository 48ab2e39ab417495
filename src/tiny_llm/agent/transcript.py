"""The record of a run: a line of JSON for each entry, complete up to the last moment before a crash."""

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
        raise NotImplementedError("7.3.3 A transcript")

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write an entry as one line of JSON, and hand it to the operating system before returning.

        All texts can be written, also those that are no valid Unicode: JSON's escapes have only ASCII.
        """
        raise NotImplementedError("7.3.3 A transcript")

    def close(self) -> None:
        """Close the file."""
        raise NotImplementedError("7.3.3 A transcript")

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        """Return the entries of a file, in order.

        A line ends with a line feed, and with nothing else: a JSON text may contain U+2028 as it is. A last line
        without a line feed is half an entry and is left out. The file is not changed: a run may be writing it.

        Raises:
            ValueError: another line is not a JSON object in UTF-8. The message has its number, from 1.
        """
        raise NotImplementedError("7.3.3 A transcript")
