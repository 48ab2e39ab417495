"""The text to train on: one file, with `<|endoftext|>` between its stories; some of them are held out to judge by."""

import hashlib
import re
from pathlib import Path

from ..checkpoints.files import read_text
from ..checkpoints.held_out import END
from ..course.registry import UsageError

# One story in so many is never trained on.
HELD_OUT_ONE_IN = 32
# So many letters in a row are no accident.
PART = 60


def read_stories(file: Path) -> list[str]:
    """The stories of a text file, without white space around them; empty ones and repetitions are left out.

    Raises:
        UsageError: it cannot be read, is not UTF-8, or holds fewer than two stories.
    """
    stories = list(dict.fromkeys(story.strip() for story in read_text(file).split(END) if story.strip()))
    if len(stories) < 2:
        held = "one story" if stories else "no story"
        raise UsageError(f"{file} holds {held}, expected several, with {END} between them")
    return stories


def split(stories: list[str]) -> tuple[list[str], list[str]]:
    """Stories to train on, and stories held out.

    A story's own text decides, so that it is held out whatever other stories there are and in whatever order: the first
    four bytes of its SHA-256, as a number.
    """

    def held_out(story: str) -> bool:
        return int.from_bytes(hashlib.sha256(story.encode()).digest()[:4], "big") % HELD_OUT_ONE_IN == 0

    return [s for s in stories if not held_out(s)], [s for s in stories if held_out(s)]


def unseen(held_out: list[str], stories: list[str]) -> list[str]:
    """The held-out stories that are no near copies: three parts from the middle of each are in no story to train on."""
    text = " ".join(map(_letters, stories))

    def parts(story: str) -> list[str]:
        letters = _letters(story)
        return [letters[len(letters) * tenths // 10 :][:PART] for tenths in (3, 5, 7)]

    return [story for story in held_out if not any(len(part) == PART and part in text for part in parts(story))]


def _letters(story: str) -> str:
    return re.sub(r"[^a-z]", "", story.lower())
