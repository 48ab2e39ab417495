"""Change files: an exact edit, shown as a diff, approved, made in one step, and undone from a journal."""

from collections.abc import Callable

from .journal import Journal
from .root import Root

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
        raise NotImplementedError("7.4.3 Edit, approve, undo")

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
        raise NotImplementedError("7.4.3 Edit, approve, undo")

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
        raise NotImplementedError("7.4.3 Edit, approve, undo")

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
        raise NotImplementedError("7.4.3 Edit, approve, undo")
