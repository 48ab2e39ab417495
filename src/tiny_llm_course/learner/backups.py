"""Backups of files that a command changes: `.tiny-llm/backups/YYYYMMDD-HHMMSS/FILE`."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ..course.registry import UsageError
from ..paths import ROOT


def back_up(contents: Mapping[str, bytes], root: Path = ROOT) -> Path:
    """Write files, by name within the package, into a new backup folder, and return it; UsageError if that fails."""
    try:
        folder = _new_folder(root / ".tiny-llm" / "backups")
        for name, content in contents.items():
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        what = f"No backup could be made in .tiny-llm/backups ({reason}), so nothing was changed."
        raise UsageError(what, "pdm run doctor") from error
    return folder


def _new_folder(parent: Path) -> Path:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):  # several backups in one second
        with suppress(FileExistsError):
            (folder := parent / f"{stamp}{suffix}").mkdir()
            return folder
    raise FileExistsError(parent / stamp)
