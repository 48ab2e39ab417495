"""Copies of the learner's files from before a command changed them: `.tiny-llm/backups/YYYYMMDD-HHMMSS/FILE`."""

import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from .paths import ROOT
from .registry import UsageError

FOLDER = ROOT / ".tiny-llm" / "backups"


def back_up(files: Sequence[Path], package: Path) -> list[Path]:
    """Copy files of a package, each to its place in a new folder; give the copies.

    Raises:
        UsageError: they cannot be written, so nothing may be changed.
    """
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        folder, number = FOLDER / stamp, 1
        while True:
            try:
                folder.mkdir()
                break
            except FileExistsError:  # another one in this second
                number += 1
                folder = FOLDER / f"{stamp}-{number}"
        copies = []
        for file in files:
            copy = folder / file.relative_to(package)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            copies.append(copy)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        what = f"No backup could be made in .tiny-llm/backups ({reason}), so nothing was changed."
        raise UsageError(what, "pdm run doctor") from error
    return copies
