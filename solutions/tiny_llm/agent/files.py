"""Two tools that read a folder and change nothing: the agent's, until day 4 gives it better ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..tools.tool import Tool, ToolError


@dataclass
class FolderTool:
    """A tool that takes one path, which must lead into a folder."""

    name: str
    description: str
    folder: Path
    read: Callable[[Path], str]
    parameters: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    )

    def call(self, arguments: dict[str, Any]) -> str:
        """Return what is at the path; raise ToolError if that is outside, or cannot be read."""
        path = arguments["path"]
        try:
            found = (self.folder / path).resolve()
            found.relative_to(self.folder)
        except ValueError:
            raise ToolError(f"{path!r} is not inside the folder.") from None
        try:
            return self.read(found)
        except OSError as error:
            raise ToolError(f"{path!r}: {error.strerror}.") from error


def reading_tools(folder: Path) -> list[Tool]:
    """Return the tools that read a folder."""
    folder = folder.resolve()
    return [
        FolderTool("list_files", "List a folder, by its path; '.' is the folder itself.", folder, _names),
        FolderTool("read_file", "Return the text of a file, by its path in the folder.", folder, _text),
    ]


def _names(folder: Path) -> str:
    """Return the names, a line each; folders end with a slash."""
    return "\n".join(sorted(f"{each.name}{'/' * each.is_dir()}" for each in folder.iterdir()))


def _text(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")
