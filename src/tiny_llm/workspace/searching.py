"""List, search and make folders of a root. Output is bounded, and no symbolic link is followed while searching."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

from .diff import printable
from .errors import WorkspaceError
from .reading import MAX_LINE
from .root import MAX_DEPTH, NO_LINK, Place, Root

MAX_RESULTS = 200
MAX_FILE = 2**20  # bytes of a file that are searched


def walk(root: Root, path: str = ".", *, deep: bool = True) -> Iterator[tuple[str, int, os.stat_result]]:
    """Yield the path, the folder's descriptor and the status of everything below a path, sorted by name in each folder.

    Hidden names are left out. A descriptor is valid until the next value is requested.
    """
    prefix = "" if path in ("", ".") else path.rstrip("/") + "/"
    folder = root.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield from _walk(root, folder, prefix, MAX_DEPTH if deep else 0)
    finally:
        os.close(folder)


def _walk(root: Root, folder: int, prefix: str, depth: int) -> Iterator[tuple[str, int, os.stat_result]]:
    for name in sorted(os.listdir(folder)):
        if name.casefold() in root.hidden:
            continue
        try:
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # deleted since
        yield prefix + name, folder, about
        if stat.S_ISDIR(about.st_mode) and depth:
            try:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=folder)
            except OSError:
                continue  # no folder any more, or not ours to read
            try:
                yield from _walk(root, inner, f"{prefix}{name}/", depth - 1)
            finally:
                os.close(inner)


def list_folder(root: Root, path: str = ".") -> str:
    """Return the names in a folder, one a line, with a mark for what is no regular file, and at most MAX_RESULTS."""
    lines = []
    for name, _, about in walk(root, path, deep=False):
        kind = {stat.S_IFDIR: "/", stat.S_IFLNK: " (link)", stat.S_IFREG: f"  {about.st_size:,} bytes"}
        lines.append(_one_line(name) + kind.get(stat.S_IFMT(about.st_mode), " (special)"))
        if len(lines) > MAX_RESULTS:
            lines[-1] = "[more names: list a folder below]"
            break
    return "\n".join(lines) or "[empty]"


def search_files(root: Root, text: str, path: str = ".") -> str:
    """Return the lines that contain a text, as `path:line: text`, and at most MAX_RESULTS.

    The text is no regular expression: some of these take longer than the universe has existed.
    """
    lines: list[str] = []
    wanted = text.encode()
    for name, folder, about in walk(root, path):
        if not stat.S_ISREG(about.st_mode):
            continue
        body = content_at(root, Place(folder, name.rpartition("/")[2], name), MAX_FILE) or b""
        if wanted not in body or b"\0" in body[:8192]:
            continue
        for number, line in enumerate(body.split(b"\n"), 1):
            if wanted in line:
                if len(lines) == MAX_RESULTS:
                    return "\n".join([*lines, "[more lines: search for a longer text, or in a folder]"])
                lines.append(f"{_one_line(name)}:{number}: {line[:MAX_LINE].decode(errors='replace')}")
    return "\n".join(lines) or "[not found]"


def content_at(root: Root, place: Place, most: int) -> bytes | None:
    """Return the first bytes of a file, or None if there is no file that `root.open_at` opens."""
    try:
        file = root.open_at(place)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read(most)
    finally:
        os.close(file)


def make_folders(root: Root, path: str) -> list[str]:
    """Create the folders of a path that do not exist, all but its last component, and return the paths of the new ones.

    Raises as `Root.locate` does.
    """
    parts, made = path.split("/")[:-1], list[str]()
    for end in range(1, len(parts) + 1):
        with root.locate("/".join(parts[:end])) as place, contextlib.suppress(FileExistsError):
            os.mkdir(place.name, dir_fd=place.folder)
            made.append(place.path)
    return made


def remove_folders(root: Root, paths: Iterable[str]) -> list[str]:
    """Delete those folders that exist and are empty, the deepest first, and return their paths. Others are left."""
    removed = []
    for path in sorted(paths, key=lambda path: path.count("/"), reverse=True):
        with contextlib.suppress(OSError, WorkspaceError), root.locate(path) as place:
            os.rmdir(place.name, dir_fd=place.folder)
            removed.append(path)
    return removed


def _one_line(name: str) -> str:
    return printable(name).replace("\n", "\\n")
