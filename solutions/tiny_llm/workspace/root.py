"""A folder that no path leaves: paths are resolved by directory descriptors, one component at a time."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from .errors import WorkspaceError

MAX_LINKS = 40  # as in Linux
MAX_DEPTH = 64  # each level holds a descriptor, and macOS allows 256 to a process
NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC


class Place(NamedTuple):
    """Where a path ends: an open folder, a name in it, and the path of both from the root, without links and `..`."""

    folder: int  # a descriptor
    name: str
    path: str


class Root:
    """A folder, held open, and the paths inside it. `with Root(folder) as root:` closes it at the end.

    A path is relative and uses `/`. `..` and symbolic links are followed as the system follows them, but only while
    they stay inside. A path is refused with a WorkspaceError, whose message begins with the path's `repr`, if

    - it is empty, absolute, or has a control character or a lone surrogate;
    - it goes above the root, by `..` or by the target of a symbolic link, even if it comes back;
    - a symbolic link on its way has an absolute target;
    - a component of it, or of a link's target, is in `hidden`, whatever its case;
    - it takes more than MAX_LINKS links, or is at some point more than MAX_DEPTH folders below the root.

    Between any two system calls, another process may replace what a path names. That must not lead outside: each
    component is looked up in the open folder before it, and only the root's own path from the working folder.
    """

    def __init__(self, folder: str | Path, hidden: tuple[str, ...] = (".git",)) -> None:
        """Open the folder, whose own path may have symbolic links.

        Args:
            folder: the workspace.
            hidden: names that no path may contain.

        Raises:
            OSError: the folder does not exist, or is no folder.
        """
        self.hidden = frozenset(name.casefold() for name in hidden)
        self.descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> "Root":
        """Return the root itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the root's descriptor."""
        os.close(self.descriptor)

    @contextlib.contextmanager
    def locate(self, path: str) -> Iterator[Place]:
        """Resolve a path up to its last component, for use in a `with` block.

        Yields:
            The folder that holds the last component, open inside the block alone, and the component's name, which is no
            symbolic link, unless it became one just now, and need not exist. The name is "." if the path ends with `..`
            or is ".", and the path of the place is then that of the folder: "." for the root.

        Raises:
            WorkspaceError: the path is refused; the list is above.
            OSError: a folder on the way does not exist, or is no folder. No descriptor stays open after any error.
        """
        if not path or path.startswith("/"):
            raise WorkspaceError(f"{path!r} is {'absolute' if path else 'empty'}: use a path relative to the workspace")
        if any(ord(letter) < 32 or ord(letter) == 127 or 0xD800 <= ord(letter) < 0xE000 for letter in path):
            raise WorkspaceError(f"{path!r} has a control character")
        pending, links = _parts(path), 0  # the next component is the last of `pending`
        names: list[str] = []  # of all folders but the root
        folders = [os.dup(self.descriptor)]
        try:
            while pending:
                part = pending.pop()
                if part.casefold() in self.hidden:
                    raise WorkspaceError(f"{path!r} enters {part}, which is not open to the tools")
                if part == "..":
                    os.close(folders.pop())  # what we came from, not what `..` names by now
                    if not folders:
                        raise WorkspaceError(f"{path!r} leaves the workspace")
                    names.pop()
                    continue
                target = _link_target(part, folders[-1])
                if target is not None:
                    links += 1
                    if target.startswith("/"):
                        raise WorkspaceError(f"{path!r} follows the link {part}, whose target is absolute")
                    if links > MAX_LINKS:
                        raise WorkspaceError(f"{path!r} follows more than {MAX_LINKS} links")
                    pending += _parts(target)
                elif not pending:
                    yield Place(folders[-1], part, "/".join([*names, part]))
                    return
                elif len(folders) > MAX_DEPTH:
                    raise WorkspaceError(f"{path!r} is more than {MAX_DEPTH} folders deep")
                else:
                    folders.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=folders[-1]))
                    names.append(part)
            yield Place(folders[-1], ".", "/".join(names) or ".")
        finally:
            for folder in folders:
                os.close(folder)

    def open(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
        """Open a regular file or a folder inside the root: `open_at` where `locate` finds it.

        Raises:
            WorkspaceError, OSError: see there. No descriptor but the returned one stays open.
        """
        with self.locate(path) as place:
            return self.open_at(place, flags, mode)

    def open_at(self, place: Place, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
        """Open the regular file or folder at a place.

        Args:
            place: from `locate`.
            flags: as for `os.open`. The descriptor is closed on exec, whatever they say.
            mode: of a file that O_CREAT creates, before the umask.

        Returns:
            The descriptor, which the caller closes.

        Raises:
            WorkspaceError: the place has something else than a folder or a regular file, such as a pipe or a device,
                which is not waited for; or a file with several hard links, which may be outside, too. Nothing is
                changed.
            OSError: it cannot be opened. A symbolic link is never followed.
        """
        # A pipe without a writer would block without O_NONBLOCK, which makes no difference to a regular file. And what
        # must not be opened must not be truncated either.
        found = os.open(place.name, flags & ~os.O_TRUNC | os.O_NONBLOCK | NO_LINK, mode, dir_fd=place.folder)
        try:
            about = os.fstat(found)
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                raise WorkspaceError(f"{place.path!r} is neither a file nor a folder")
            if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
                raise WorkspaceError(f"{place.path!r} has {about.st_nlink} hard links: it may be a file outside")
            if flags & os.O_TRUNC:
                os.ftruncate(found, 0)
        except BaseException:
            os.close(found)
            raise
        return found


def _parts(path: str) -> list[str]:
    """Return a path's components, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _link_target(name: str, folder: int) -> str | None:
    """Return the target of a symbolic link, or None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # no link, or nothing at all, which opening it will report
            return None
        raise
