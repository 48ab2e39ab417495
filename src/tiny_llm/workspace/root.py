"""A folder that no path leaves: paths are resolved by directory descriptors, one component at a time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

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
        raise NotImplementedError("7.4.1 A root that no path leaves")

    def __enter__(self) -> "Root":
        """Return the root itself."""
        raise NotImplementedError("7.4.1 A root that no path leaves")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the root's descriptor."""
        raise NotImplementedError("7.4.1 A root that no path leaves")

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
        raise NotImplementedError("7.4.1 A root that no path leaves")

    def open(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
        """Open a regular file or a folder inside the root: `open_at` where `locate` finds it.

        Raises:
            WorkspaceError, OSError: see there. No descriptor but the returned one stays open.
        """
        raise NotImplementedError("7.4.1 A root that no path leaves")

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
        raise NotImplementedError("7.4.1 A root that no path leaves")
