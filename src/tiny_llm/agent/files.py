"""Two tools that read a folder and change nothing."""

from pathlib import Path
from typing import Any

from ..tools.tool import Tool, ToolError

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class _InFolder:
    """A tool whose paths must lead into one folder."""

    parameters: dict[str, Any] = PATH

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def _inside(self, path: str) -> Path:
        try:
            found = (self.folder / path).resolve()
            found.relative_to(self.folder)
        except (ValueError, OSError):
            raise ToolError(f"{path!r} is not inside the folder.") from None
        if not found.exists():
            raise ToolError(f"There is no {path!r}.")
        return found


class ReadFile(_InFolder):
    """Returns a file's text."""

    name, description = "read_file", "Return the text of a file, by its path in the folder."

    def call(self, arguments: dict[str, Any]) -> str:
        """Return the text."""
        file = self._inside(arguments["path"])
        if file.is_dir():
            raise ToolError(f"{arguments['path']!r} is a folder. List it.")
        return file.read_bytes().decode(errors="replace")


class ListFiles(_InFolder):
    """Lists a folder."""

    name, description = "list_files", "List a folder, by its path in the folder; '.' is the folder itself."

    def call(self, arguments: dict[str, Any]) -> str:
        """Return the names, a line each; folders end with a slash."""
        folder = self._inside(arguments["path"])
        if not folder.is_dir():
            raise ToolError(f"{arguments['path']!r} is no folder. Read it.")
        return "\n".join(sorted(f"{each.name}{'/' * each.is_dir()}" for each in folder.iterdir()))


def reading_tools(folder: Path) -> list[Tool]:
    """Return the tools that read a folder."""
    return [ListFiles(folder), ReadFile(folder)]
