"""The undo journal: what each change replaced, on disk before the change is made."""

import base64
import dataclasses
import hashlib
import json
import os
from pathlib import Path

FOLDERS = "folders.json"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One change of one file: its old content, and the hash of its new one. None means that there is no file."""

    path: str
    before: bytes | None
    after: str | None  # `digest` of the new content
    mode: int = 0o644  # of the file before


def digest(content: bytes | None) -> str | None:
    """Return the SHA-256 of a file's content, or None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()


class Journal:
    """A stack of steps in a folder outside the workspace, one JSON file each. A step may have changed several files.

    Folders that were created are kept beside the steps, in `FOLDERS`: they can be deleted when all steps are undone.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is created, readable by its owner alone, if it does not exist."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder

    def _steps(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.json"))

    def __len__(self) -> int:
        """Return the number of steps that can be undone."""
        return len(self._steps())

    def push(self, *entries: Entry) -> None:
        """Write a step, and return when it is on disk: a change made afterwards can be undone even after a crash."""
        steps = self._steps()
        number = int(steps[-1].stem) + 1 if steps else 1
        table = [
            {**dataclasses.asdict(e), "before": None if e.before is None else base64.b64encode(e.before).decode()}
            for e in entries
        ]
        whole, part = self.folder / f"{number:06}.json", self.folder / f"{number:06}.part"
        with part.open("w", encoding="utf-8") as file:
            json.dump(table, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(whole)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @property
    def folders(self) -> list[str]:
        """The paths of the folders that were created."""
        file = self.folder / FOLDERS
        return list(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []

    @folders.setter
    def folders(self, paths: list[str]) -> None:
        file = self.folder / FOLDERS
        if paths:
            file.write_text(json.dumps(paths), encoding="utf-8")
        else:
            file.unlink(missing_ok=True)

    def last(self) -> list[Entry]:
        """Return the files of the last step. Raises LookupError if there is none."""
        steps = self._steps()
        if not steps:
            raise LookupError("there is nothing to undo")
        table = json.loads(steps[-1].read_text(encoding="utf-8"))
        return [Entry(**{**e, "before": None if e["before"] is None else base64.b64decode(e["before"])}) for e in table]

    def pop(self) -> None:
        """Remove the last step."""
        self._steps()[-1].unlink()
