"""Copies of files from before a command changed them: `.tiny-llm/backups/YYYYMMDD-HHMMSS/FILE`."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from ..course.registry import UsageError
from ..paths import ROOT


def back_up(contents: Mapping[str, bytes], root: Path = ROOT) -> Path:
    """Write contents, by their files' names within the package, into a new folder of the checkout at `root`; give it.

    Raises:
        UsageError: they cannot be written, so nothing may be changed.
    """
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
    stamp, number = datetime.now().strftime("%Y%m%d-%H%M%S"), 1
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:  # another one in this second
            number += 1
        else:
            return folder
