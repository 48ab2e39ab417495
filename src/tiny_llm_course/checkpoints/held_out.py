"""The stories that models are judged by, and the measure: bits per byte.

Some come with the course, `models/held-out-stories.txt`; more are kept out of a text that a model is trained on.
"""

import dataclasses
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..paths import MODELS
from .files import read_text

END = "<|endoftext|>"  # stands behind each story, and is one token
FILE = MODELS / "held-out-stories.txt"
COMMENT = "#"  # begins a line that is no part of a story

Tokens = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Stories as tokens: each a row by itself, with the mark of an end before and after it."""

    rows: list[Tokens]
    bytes: int  # of their texts, in UTF-8

    @property
    def predicted(self) -> int:
        """How many tokens are predicted: all but the first mark of each row."""
        return sum(len(row) - 1 for row in self.rows)

    def bits_per_byte(self, nats_per_token: float) -> float:
        """The loss without the tokenizer in it, so that models with different ones can be compared.

        The mark at the end of a story is predicted too, and is no byte.
        """
        return nats_per_token * self.predicted / math.log(2) / self.bytes


def shipped_stories(file: Path = FILE) -> list[str]:
    """The stories that come with the course; nobody trains on them.

    Raises:
        UsageError: the file cannot be read.
    """
    lines = read_text(file).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(COMMENT))
    return [story.strip() for story in text.split(END) if story.strip()]
