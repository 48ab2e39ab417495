"""Agents that work at the same time, each on its own copy of a workspace. Nothing here is yours to write."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..workspace.changes import Changes
from ..workspace.merge import Merge, merge_copies
from ..workspace.root import Root
from ..workspace.searching import make_folders
from ..workspace.snapshot import Snapshot


def work_on_copies(folder: Path, names: Sequence[str], work: Callable[[str, Path], object]) -> Merge:
    """Copy a workspace once for each name, call `work` with each name and copy, in threads, and merge the copies.

    The workspace itself is not changed, and the copies are deleted.

    Raises:
        ValueError: the workspace is too large for a `Snapshot`.
    """
    before = _files(folder)
    with tempfile.TemporaryDirectory() as top:
        copies = {name: Path(top) / str(number) for number, name in enumerate(names)}
        for copy in copies.values():
            shutil.copytree(folder, copy, symlinks=True)
        with ThreadPoolExecutor(len(copies)) as pool:
            list(pool.map(work, copies, copies.values()))
        return merge_copies(before, {name: _files(copy) for name, copy in copies.items()})


def apply_merge(merge: Merge, changes: Changes) -> list[str]:
    """Write the merged text files, each after approval, so that all of them can be undone.

    Returns:
        The paths that were left to the user: deleted files, and those that are no text.
    """
    left = []
    for path, content in merge.changed.items():
        try:
            text = None if content is None else content.decode()
        except UnicodeDecodeError:
            text = None
        if text is None:
            left.append(path)
        else:
            changes.journal.folders += make_folders(changes.root, path)
            changes.write(path, text)
    return left


def _files(folder: Path) -> dict[str, bytes]:
    with Root(folder) as root:
        found = Snapshot.take(root)
    if found is None:
        raise ValueError(f"{folder} is too large to copy")
    return {path: content for path, (content, _) in found.files.items()}
