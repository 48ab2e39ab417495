"""Notices that files were saved: at once where the system reports it, and anyhow when someone looks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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


@contextmanager
def saves(package: Path, tell: Callable[[], None]) -> Iterator[None]:
    """While the block runs, `tell` is called from a thread when something below the folder's parent has changed.

    It may say nothing (a network drive, a container's mount, a system out of watches) or too much: `signature` decides.
    """
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(package, tell, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(1.0)


def _watch(package: Path, tell: Callable[[], None], stop: threading.Event) -> None:
    # It cannot watch everywhere; then looking must do.
    with suppress(Exception):
        from watchfiles import watch

        # The parent, so that the folder itself may go and come. Never watchfiles' own polling, which does not
        # tell two saves within one second apart.
        for _ in watch(
            package.parent,
            watch_filter=lambda change, path: language_of(path) is not None,
            stop_event=stop,
            rust_timeout=500,
            raise_interrupt=False,
            force_polling=False,
            ignore_permission_denied=True,
        ):
            tell()
