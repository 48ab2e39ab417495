"""Detects saved files: by system events where available, and by comparing file signatures."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...source.languages import language_of
from ...source.package import files_of

Signature = tuple[tuple[str, int, int, int], ...]


def signature(package: Path) -> Signature:
    """Return the times, sizes and inodes of the learner's files, which change on a save."""
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
    """While the block runs, call `tell` on changes near the package; events may be missing: `signature` decides."""
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(package, tell, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(1.0)


def _watch(package: Path, tell: Callable[[], None], stop: threading.Event) -> None:
    # Where watching fails, polling remains.
    with suppress(Exception):
        from watchfiles import watch

        # The parent, as the folder itself may be replaced. No polling by watchfiles: it merges saves within a second.
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
