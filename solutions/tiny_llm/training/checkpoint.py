"""Checkpoints of a training run that survive a crash or a power cut at any moment."""

import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import mlx.core as mx

Params = dict[str, mx.array]

KEPT = 2  # checkpoints
MANIFEST = re.compile(r"step-(\d+)\.json")
TEMPORARY = "writing-"  # begins the names of files that are not complete


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A run's state after a step."""

    step: int
    params: Params
    optimizer_state: Params
    progress: dict[str, Any]  # everything else, as JSON: the loader's state, the log
    skipped: tuple[str, ...] = ()  # newer checkpoints that are damaged, and why


class Checkpoints:
    """The checkpoints in one folder.

    A checkpoint of step 500 is three files: `step-500.params.safetensors`, `step-500.optimizer.safetensors`, and the
    manifest `step-500.json`. A checkpoint exists if its manifest does, and is whole if every file has the size and the
    SHA-256 in the manifest.
    """

    def __init__(self, folder: Path) -> None:
        """Store the folder, which need not exist yet, and neither need its parents."""
        self.folder = Path(folder)

    def save(self, step: int, params: Params, optimizer_state: Params, progress: dict[str, Any]) -> None:
        """Write a checkpoint; once this returns, it survives a power cut, as far as `os.fsync` reaches the disk.

        A crash at any moment leaves the previous checkpoint whole, and at most one incomplete one, which `load_latest`
        ignores. To this end each file is written under a temporary name in the same folder, synced to the disk by
        `os.fsync`, and then renamed by `os.replace`. The manifest comes last: {"step": step, "progress": progress,
        "files": {name: {"bytes": size, "sha256": hexadecimal digest}}}. Afterwards, of all checkpoints, the two with
        the highest steps are kept. Older ones are deleted, each one's manifest first, and so are temporary files.

        Args:
            step: 0 or more. A checkpoint of the same step is replaced.
            params: arrays of any dtype by name; stored as safetensors in their own dtypes.
            optimizer_state: likewise.
            progress: what JSON can store.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for kind, arrays in (("params", params), ("optimizer", optimizer_state)):
            name = f"step-{step}.{kind}.safetensors"
            temporary = self.folder / f"{TEMPORARY}{name}"
            mx.save_safetensors(str(temporary), arrays)
            files[name] = _measure(temporary)
            self._publish(temporary, name)
        manifest = self.folder / f"{TEMPORARY}step-{step}.json"
        manifest.write_text(json.dumps({"step": step, "progress": progress, "files": files}), encoding="utf-8")
        self._publish(manifest, f"step-{step}.json")
        for old in self.steps()[KEPT:]:
            self._delete(f"step-{old}.json")  # first: from now on the checkpoint does not exist
            for kind in ("params", "optimizer"):
                self._delete(f"step-{old}.{kind}.safetensors")
        for leftover in self.folder.glob(f"{TEMPORARY}*"):
            leftover.unlink()

    def load_latest(self) -> Checkpoint | None:
        """Return the whole checkpoint with the highest step; None if there is no checkpoint.

        A checkpoint is damaged if its manifest is not JSON with these entries, or if a file is missing or has another
        size or digest than the manifest says. Then the one before it is tried. `skipped` has one message for each,
        newest first, which begins with the manifest's name. Nothing is deleted or written.

        Returns:
            The checkpoint, its arrays evaluated and in the dtypes in which they were saved.

        Raises:
            ValueError: there are checkpoints, and all are damaged. The message has all of the messages.
        """
        skipped: list[str] = []
        for step in self.steps():
            try:
                return dataclasses.replace(self._load(step), skipped=tuple(skipped))
            except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
                skipped.append(f"step-{step}.json: {error}")
        if skipped:
            raise ValueError("no checkpoint is whole: " + "; ".join(skipped))
        return None

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, damaged ones included, the highest first; empty without the folder."""
        names = [path.name for path in self.folder.glob("step-*.json")]
        return sorted((int(match[1]) for name in names if (match := MANIFEST.fullmatch(name))), reverse=True)

    def _load(self, step: int) -> Checkpoint:
        manifest = json.loads((self.folder / f"step-{step}.json").read_text(encoding="utf-8"))
        arrays = []
        for kind in ("params", "optimizer"):
            name = f"step-{step}.{kind}.safetensors"
            found, wanted = _measure(self.folder / name), manifest["files"][name]
            if found != wanted:
                raise ValueError(f"{name} has {found}, but the manifest says {wanted}")
            loaded = mx.load(str(self.folder / name))
            assert isinstance(loaded, dict)
            mx.eval(loaded)  # read now: the file may be deleted before the arrays are used
            arrays.append(loaded)
        return Checkpoint(manifest["step"], arrays[0], arrays[1], manifest["progress"])

    def _publish(self, temporary: Path, name: str) -> None:
        """Sync a file and rename it; then sync the folder, which holds the name."""
        _sync(temporary)
        os.replace(temporary, self.folder / name)
        if os.name == "posix":  # Windows cannot open a folder
            _sync(self.folder)

    def _delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def _measure(file: Path) -> dict[str, Any]:
    """Return a file's size and digest, as a manifest has them."""
    content = file.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _sync(path: Path) -> None:
    """Wait until the disk has a file's content, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
