"""Checkpoints of a training run that survive a crash or a power cut at any moment."""

import dataclasses
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
        raise NotImplementedError("5.4.2 Checkpoints that survive a crash")

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
        raise NotImplementedError("5.4.2 Checkpoints that survive a crash")

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
        raise NotImplementedError("5.4.2 Checkpoints that survive a crash")

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, damaged ones included, the highest first; empty without the folder."""
        raise NotImplementedError("5.4.2 Checkpoints that survive a crash")
