"""Held-out stories and bits per byte: some ship with the course, `train` holds out more of its own text."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..paths import MODELS
from .files import read_text

END = "<|endoftext|>"  # ends each story; one token
FILE = MODELS / "held-out-stories.txt"
COMMENT = "#"  # begins a comment line

Tokens = NDArray[np.int64]


class HeldOut(NamedTuple):
    """Stories as tokens: one row each, with the end mark before and after it."""

    rows: list[Tokens]
    bytes: int  # of their texts, in UTF-8

    @property
    def predicted(self) -> int:
        """The number of predicted tokens: all but the first mark of each row."""
        return sum(len(row) - 1 for row in self.rows)

    def bits_per_byte(self, nats_per_token: float) -> float:
        """Return the loss per byte, whatever the tokenizer; the end mark is predicted, but is no byte."""
        return nats_per_token * self.predicted / math.log(2) / self.bytes


def shipped_stories(file: Path = FILE) -> list[str]:
    """Return the stories that ship with the course, never trained on; raise UsageError if the file cannot be read."""
    lines = read_text(file).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(COMMENT))
    return [story.strip() for story in text.split(END) if story.strip()]
