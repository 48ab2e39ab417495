"""The tools of a workspace, as a model sees them: a name, a description, a JSON schema, and a call."""

import dataclasses
import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .changes import Approve, Changes
from .commands import NO_LIMITS, run_limited
from .diff import printable, unified
from .errors import WorkspaceError
from .journal import Journal
from .limits import Limits
from .reading import read_range
from .root import Root
from .searching import list_folder, make_folders, search_files
from .snapshot import Snapshot

CHANGES = ("edit_file", "write_file")  # they change the file that is their target
READ_ONLY = ("list_files", "read_file", "search_files")  # the others change something, and ask for approval
PATH = {"type": "string", "description": "a path relative to the workspace"}


@dataclasses.dataclass(frozen=True)
class WorkspaceTool:
    """One tool."""

    name: str
    description: str
    parameters: dict[str, Any]  # a JSON schema
    run: Callable[..., str]

    def call(self, arguments: dict[str, Any]) -> str:
        """Run the tool with arguments that its schema allows, as `agent.calls.call_tool` checks them.

        Raises WorkspaceError, in one line, for everything that fails.
        """
        try:
            return self.run(**arguments)
        except WorkspaceError:
            raise
        except OSError as error:
            raise WorkspaceError(f"{self.name}: {error.strerror or error}: {error.filename!r}") from error
        except (ValueError, LookupError) as error:
            raise WorkspaceError(f"{self.name}: {str(error).splitlines()[0]}") from error


def workspace_tools(
    root: Root, journal: Journal, approve: Approve, *, dry_run: bool = False, limits: Limits = NO_LIMITS
) -> list[WorkspaceTool]:
    """Return the tools of a root. Reading needs no approval; each change and each command does.

    In a dry run, changes return the diff, and a command its words. Changes can be undone by `Changes(...).undo()` with
    the same journal, and so can what a command did to the files in the root, as far as `Snapshot` keeps them.
    """
    changes = Changes(root, journal, approve, dry_run=dry_run)

    def read_file(path: str, first: int = 1, last: int | None = None) -> str:
        file = root.open(path)
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                raise WorkspaceError(f"{path!r} is a folder: list it")
            return read_range(file, first, last)
        finally:
            os.close(file)

    def write_file(path: str, text: str) -> str:
        folder = path.rpartition("/")[0]
        try:
            os.close(root.open(folder or "."))
        except FileNotFoundError:
            if dry_run:
                return unified(path, None, text)
            if not approve("make folder", printable(folder)):
                raise WorkspaceError(f"{folder!r}: the user refused") from None
            journal.folders += make_folders(root, path)
        return changes.write(path, text)

    def run_command(command: list[str]) -> str:
        if not all(isinstance(word, str) for word in command):
            raise WorkspaceError("command must be an array of strings")
        words = printable(shlex.join(command))
        if dry_run:
            return f"dry run: would run {words}"
        before = Snapshot.take(root)
        if not approve("run", words + ("" if before else "\n(the workspace is too large to undo what it does)")):
            raise WorkspaceError("run: the user refused")
        before = before and Snapshot.take(root)  # again: the user may have saved a file while deciding
        try:
            report = run_limited(command, root.descriptor, limits).report()
        finally:  # after Ctrl-C, too
            after = Snapshot.take(root) if before else None
            if before and after:
                journal.folders += after.folders - before.folders
                if entries := before.changes(after):
                    journal.push(*entries)
        return report if after else f"{report}\n[what it changed cannot be undone: the workspace is too large]"

    return [
        _tool("list_files", "List a folder.", lambda path=".": list_folder(root, path), path=PATH),
        _tool(
            "read_file", "Read a file's lines, with their numbers.", read_file, "path",
            path=PATH, first={"type": "integer", "description": "first line, from 1"},
            last={"type": "integer", "description": "last line"},
        ),
        _tool(
            "search_files", "Find the lines that contain a text, which is no pattern.",
            lambda text, path=".": search_files(root, text, path), "text",
            text={"type": "string", "description": "what to find"}, path=PATH,
        ),
        _tool(
            "edit_file", "Replace a text that occurs exactly once in a file.", changes.edit, "path", "old", "new",
            path=PATH, old={"type": "string", "description": "the text, exactly as it is in the file"},
            new={"type": "string", "description": "what replaces it"},
        ),
        _tool(
            "write_file", "Write a whole file.", write_file, "path", "text",
            path=PATH, text={"type": "string", "description": "the file's new content"},
        ),
        _tool(
            "run_command", "Run a command, such as the tests, without a shell.", run_command, "command",
            command={"type": "array", "items": {"type": "string"}, "description": "the program and its arguments"},
        ),
    ]  # fmt: skip


def _tool(name: str, description: str, run: Callable[..., str], *required: str, **properties: Any) -> WorkspaceTool:
    """Return a tool that takes these properties and no others."""
    schema = {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}
    return WorkspaceTool(name, description, schema, run)


def open_workspace(
    folder: Path, undo_folder: Path, approve: Approve, *, dry_run: bool = False, limits: Limits = NO_LIMITS
) -> tuple[list[WorkspaceTool], Changes]:
    """Return the tools of a folder, and the changes, whose `undo` is the user's.

    Raises:
        WorkspaceError: the undo folder is inside the workspace, where an agent could change it.
        OSError: there is no such folder.
    """
    if undo_folder.resolve().is_relative_to(folder.resolve()):
        raise WorkspaceError(f"{undo_folder} is inside the workspace: keep the journal elsewhere")
    root, journal = Root(folder), Journal(undo_folder)
    return workspace_tools(root, journal, approve, dry_run=dry_run, limits=limits), Changes(root, journal, approve)
