"""Change files: an exact edit, shown as a diff, approved, made in one step, and undone from a journal."""

import os
import secrets
import stat
from collections.abc import Callable

from .diff import printable, unified
from .errors import WorkspaceError
from .journal import Entry, Journal, digest
from .root import NO_LINK, Place, Root
from .searching import make_folders
from .snapshot import MOST_BYTES

Approve = Callable[[str, str], bool]  # an action in a few words, and its details
MAX_BYTES = 2**20  # of a file before and after a change


class Changes:
    """Changes of the UTF-8 text files of a root, which must have at most MAX_BYTES.

    Every change is made in this order. Find the place of the file, once. Compute the change. In a dry run, return the
    diff and stop. Ask for approval. Check that the file is still as it was. Push its old content to the journal.
    Replace the file in one step: write a new file, whose name is random, in the same folder, sync it, and rename it, so
    that a reader sees either the old content or the new one, whatever happens. Permissions stay; a new file has 0o644.
    No other file is left over, even after an error, and the journal then has no step for the change.

    All content is kept to the byte: line endings, too, and a missing line break at the end.
    """

    def __init__(self, root: Root, journal: Journal, approve: Approve, *, dry_run: bool = False) -> None:
        """Keep what changes need.

        Args:
            root: the workspace.
            journal: keeps what was there before.
            approve: called with "edit PATH" or "write PATH" and the diff, returns whether the user agrees. PATH is the
                path of the place, `printable`: of the file itself, not of a link to it.
            dry_run: whether nothing is to be changed. Then nothing is approved, either.
        """
        self.root, self.journal, self.approve, self.dry_run = root, journal, approve, dry_run

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace the only occurrence of `old` in a file by `new`.

        Returns:
            The diff, `unified(PATH, before, after)`.

        Raises:
            WorkspaceError: `old` does not occur, or is empty; or it occurs more than once, where occurrences may
                overlap. The message then says how often, and in which lines the first ten begin: "3 times, in lines 1,
                4, 4". Or `new` equals it; or the change is not approved, or the file has changed meanwhile, or is too
                large, or is a folder.
            ValueError: the file is no UTF-8.
            OSError: there is no such file.
        """
        with self.root.locate(path) as place:
            before, mode = self._read(place)
            if before is None:
                raise FileNotFoundError(2, "no such file", path)
            text = before.decode()
            starts = [i for i in range(len(text)) if text.startswith(old, i)] if old else []
            if len(starts) != 1:
                lines = ", ".join(str(text.count("\n", 0, i) + 1) for i in starts[:10])
                found = f"occurs {len(starts)} times, in lines {lines}" if starts else "does not occur"
                raise WorkspaceError(f"the old text {found} in {path!r}: it must occur exactly once")
            return self._change("edit", place, before, text[: starts[0]] + new + text[starts[0] + len(old) :], mode)

    def write(self, path: str, text: str) -> str:
        """Write a whole file, new or not, in a folder that exists.

        Returns:
            The diff, `unified(PATH, before, text)`, where `before` is None for a new file.

        Raises:
            WorkspaceError: the file has this content already; or the change is not approved, or the file has changed
                meanwhile, or is too large, or is a folder.
            ValueError: the file is no UTF-8.
            OSError: there is no such folder.
        """
        with self.root.locate(path) as place:
            before, mode = self._read(place)
            return self._change("write", place, before, text, mode)

    def undo(self) -> str:
        """Undo the last step of the journal, and remove it there. A file that was new is deleted.

        The folder of a file may be gone by now, and those above it, too: they are made again.

        Files may have up to MOST_BYTES here: a step may be a command's.

        Returns:
            "undone: " and the paths, separated by ", ".

        Raises:
            WorkspaceError: a file has changed since the step: its content is neither what the step left nor what it
                replaced. Nothing is undone then, not even in the step's other files.
            LookupError: the journal is empty.
        """
        entries = self.journal.last()
        for entry in entries:
            make_folders(self.root, entry.path)
            with self.root.locate(entry.path) as place:
                if digest(self._read(place, MOST_BYTES)[0]) not in (entry.after, digest(entry.before)):
                    raise WorkspaceError(f"{entry.path!r} has changed since: it is not undone")
        for entry in entries:
            with self.root.locate(entry.path) as place:
                if entry.before is not None:
                    self._replace(place, entry.before, entry.mode)
                elif self._read(place, MOST_BYTES)[0] is not None:
                    os.unlink(place.name, dir_fd=place.folder)
        self.journal.pop()
        return "undone: " + ", ".join(entry.path for entry in entries)

    def _change(self, action: str, place: Place, before: bytes | None, text: str, mode: int) -> str:
        """Make one change, in the order above, and return its diff."""
        after = text.encode()
        if after == before:
            raise WorkspaceError(f"{place.path!r} would not change")
        if len(after) > MAX_BYTES:
            raise WorkspaceError(f"{place.path!r} would have more than {MAX_BYTES:,} bytes")
        diff = unified(place.path, None if before is None else before.decode(), text)
        if self.dry_run:
            return diff
        if not self.approve(f"{action} {printable(place.path)}", diff):
            raise WorkspaceError(f"{action} {place.path}: the user refused")
        if self._read(place) != (before, mode):
            raise WorkspaceError(f"{place.path!r} has changed meanwhile: read it again")
        self.journal.push(Entry(place.path, before, digest(after), mode))
        try:
            self._replace(place, after, mode)
        except BaseException:
            self.journal.pop()
            raise
        return diff

    def _read(self, place: Place, most: int = MAX_BYTES) -> tuple[bytes | None, int]:
        """Return a file's content, None if there is no file, and its permissions."""
        try:
            file = self.root.open_at(place)
        except FileNotFoundError:
            return None, 0o644
        try:
            about = os.fstat(file)
            if stat.S_ISDIR(about.st_mode):
                raise WorkspaceError(f"{place.path!r} is a folder")
            with os.fdopen(file, "rb", closefd=False) as opened:
                content = opened.read(most + 1)
        finally:
            os.close(file)
        if len(content) > most:
            raise WorkspaceError(f"{place.path!r} has more than {most:,} bytes")
        return content, stat.S_IMODE(about.st_mode) & 0o777

    def _replace(self, place: Place, content: bytes, mode: int) -> None:
        """Write a new file beside the old one, and rename it."""
        temporary = f".{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
        file = os.open(temporary, flags, 0o600, dir_fd=place.folder)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fchmod(file, mode)
                os.fsync(file)  # before the name leads here: a crash must not leave an empty file
            os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        except BaseException:
            os.unlink(temporary, dir_fd=place.folder)
            raise
