"""Notices that files were saved: at once where the system reports it, and anyhow when someone looks."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ...source.languages import language_of
from ...source.package import files_of

Signature = tuple[tuple[str, int, int, int], ...]


def signature(package: Path) -> Signature:
    """What changes when a file that the learner writes is saved: times, sizes and identities of the files."""
    found = []
    for file in filter(language_of, files_of(package)):
        try:
            status = (package / file).stat()
        except OSError:  # just renamed or deleted
            continue
        found.append((file, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


class Saves:
    """While it is open, `tell` is called from a thread when something below the folder's parent has changed.

    It may say nothing (a network drive, a container's mount, a system out of watches) or too much: `signature` decides.
    """

    def __init__(self, package: Path, tell: Callable[[], None]) -> None:
        self._package = package
        self._tell = tell
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Saves":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            from watchfiles import watch

            # The parent, so that the folder itself may go and come. Never watchfiles' own polling, which does not
            # tell two saves within one second apart.
            for _ in watch(
                self._package.parent,
                watch_filter=lambda change, path: language_of(path) is not None,
                stop_event=self._stop,
                rust_timeout=500,
                raise_interrupt=False,
                force_polling=False,
                ignore_permission_denied=True,
            ):
                self._tell()
        except Exception:
            return  # it cannot watch here; then looking must do
