"""A file system that fails at a chosen moment, for the tests and known programs of checkpoints.

`crashing_at(folder, number)` stops the program at its n-th change in a folder, as a kill would: before the change, or
with the file only half written. `DiskCache` remembers which files were synced, and `power_cut` empties the others.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx


class Crash(BaseException):
    """The process ends here."""


class _Plan:
    """What the audit hook, which cannot be removed, does at present."""

    folder: str | None = None
    number = 0
    half = False
    seen = 0
    dead = False
    installed = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if _Plan.folder is None or event not in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"):
        return
    path = args[0] if isinstance(args[0], str) else os.fsdecode(args[0]) if isinstance(args[0], bytes) else ""
    if not os.path.abspath(path).startswith(_Plan.folder):
        return
    if event == "open":
        writes = args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) if isinstance(args[2], int) else 0
        if not writes:
            return
    _happen(path if event == "open" else None)


def _happen(written: str | None) -> None:
    """Count a change; crash if it is the chosen one, or if the process is dead already."""
    if _Plan.dead:
        raise Crash
    _Plan.seen += 1
    if _Plan.seen > _Plan.number:
        _Plan.dead = True
        if _Plan.half and written is not None:
            folder, _Plan.folder = _Plan.folder, None
            with open(written, "wb"):  # opened, and nothing written yet
                pass
            _Plan.folder = folder
        raise Crash


@contextmanager
def crashing_at(folder: Path, number: int, half: bool = False) -> Iterator[None]:
    """Let `number` changes in the folder happen, and none after them; with `half`, the next file is left incomplete."""
    if not _Plan.installed:
        sys.addaudithook(_watch)
        _Plan.installed = True
    save = mx.save_safetensors

    def save_safetensors(file: Any, *args: Any, **kwargs: Any) -> None:
        path = str(file) if str(file).endswith(".safetensors") else f"{file}.safetensors"
        try:
            _happen(None)
        except Crash:
            if _Plan.half and _Plan.seen == _Plan.number + 1:
                _Plan.folder = None
                save(file, *args, **kwargs)
                os.truncate(path, os.path.getsize(path) // 2)
            raise
        save(file, *args, **kwargs)

    _Plan.folder, _Plan.number, _Plan.half, _Plan.seen, _Plan.dead = os.path.abspath(folder), number, half, 0, False
    mx.save_safetensors = save_safetensors
    try:
        yield
    finally:
        mx.save_safetensors, _Plan.folder = save, None


class DiskCache:
    """Files and folders that were synced, while `recording` is open."""

    def __init__(self) -> None:
        self.synced: dict[int, int] = {}  # the inode, and the number of renames before its last sync
        self.renames = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note each os.fsync, instead of waiting for the disk, and each os.replace."""
        fsync, replace, rename = os.fsync, os.replace, os.rename

        def note(file: Any) -> None:
            self.synced[os.fstat(file if isinstance(file, int) else file.fileno()).st_ino] = self.renames

        def renamed(by: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> None:
                self.renames += 1
                by(*args, **kwargs)

            return call

        os.fsync, os.replace, os.rename = note, renamed(replace), renamed(rename)  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync, os.replace, os.rename = fsync, replace, rename

    def power_cut(self, folder: Path) -> None:
        """Empty the files whose content only the system's memory had."""
        for file in folder.iterdir():
            if file.is_file() and file.stat().st_ino not in self.synced:
                os.truncate(file, 0)

    def has_names(self, folder: Path) -> bool:
        """Return whether the folder itself was synced after the last rename."""
        return self.synced.get(folder.stat().st_ino, -1) >= self.renames
