"""The files of a root before a command runs, so that what it does to them can be undone."""

import dataclasses
import stat

from .journal import Entry, digest
from .root import Place, Root
from .searching import content_at, walk

MOST_BYTES = 64 * 2**20
MOST_FILES = 5000


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The content and permissions of each regular file, by path, and the paths of the folders.

    Left out are hidden folders, links, and names with control characters, which no path may have.
    """

    files: dict[str, tuple[bytes, int]]
    left_out: frozenset[str] = frozenset()  # names whose content is not kept: they are never new
    folders: frozenset[str] = frozenset()

    @staticmethod
    def take(root: Root) -> "Snapshot | None":
        """Return what the root has now, or None if that is more than MOST_BYTES or MOST_FILES."""
        files: dict[str, tuple[bytes, int]] = {}
        left_out, folders, total = set[str](), set[str](), 0
        for path, folder, about in walk(root):
            if stat.S_ISDIR(about.st_mode):
                folders.add(path)
                continue
            content = None
            if stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and path.isprintable():
                total += about.st_size
                if total > MOST_BYTES or len(files) == MOST_FILES:
                    return None
                content = content_at(root, Place(folder, path.rpartition("/")[2], path), MOST_BYTES)
            if content is None:
                left_out.add(path)
            else:
                files[path] = content, stat.S_IMODE(about.st_mode) & 0o777
        return Snapshot(files, frozenset(left_out), frozenset(folders))

    def changes(self, later: "Snapshot") -> list[Entry]:
        """Return what must be restored to come back from a later snapshot to this one."""
        found = []
        for path in sorted((self.files.keys() | later.files.keys()) - self.left_out):
            before, mode = self.files.get(path, (None, 0o644))
            after, later_mode = later.files.get(path, (None, mode))
            if before != after or mode != later_mode:
                found.append(Entry(path, before, digest(after), mode))
        return found
