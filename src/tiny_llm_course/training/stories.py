"""The training text: one file of stories separated by `<|endoftext|>`, some of them held out."""

import hashlib
import re
from pathlib import Path

from ..checkpoints.files import read_text
from ..checkpoints.held_out import END, FILE, shipped_stories
from ..course.file_paths import name_of
from ..course.registry import UsageError

HELD_OUT_ONE_IN = 32  # stories
PART = 60  # letters that two stories do not share by chance


def read_stories(file: Path) -> list[str]:
    """Return the stories of a text file, stripped, without empty ones and duplicates; UsageError if fewer than two."""
    stories = list(dict.fromkeys(story.strip() for story in read_text(file).split(END) if story.strip()))
    if len(stories) < 2:
        held = "one story" if stories else "no story"
        raise UsageError(f"{file} holds {held}, expected several, with {END} between them")
    return stories


def split(stories: list[str]) -> tuple[list[str], list[str]]:
    """Return training and held-out stories, by a story's own hash: the first four bytes of its SHA-256."""

    def held_out(story: str) -> bool:
        return int.from_bytes(hashlib.sha256(story.encode()).digest()[:4], "big") % HELD_OUT_ONE_IN == 0

    return [s for s in stories if not held_out(s)], [s for s in stories if held_out(s)]


def unseen(held_out: list[str], stories: list[str]) -> list[str]:
    """Return the held-out stories without near copies: none of three middle parts occurs in a training story."""
    text = " ".join(map(_letters, stories))

    def parts(story: str) -> list[str]:
        letters = _letters(story)
        return [letters[len(letters) * tenths // 10 :][:PART] for tenths in (3, 5, 7)]

    return [story for story in held_out if not any(len(part) == PART and part in text for part in parts(story))]


def training_stories(texts: tuple[Path, ...]) -> tuple[list[str], list[str]]:
    """Return training stories and unseen held-out ones of the first text; UsageError for an unusable text."""
    first, *others = [_stories_to_train_on(file) for file in texts]
    stories, held_out = split(first)
    apart = set(held_out)
    more = (story for other in others for story in other if story not in apart)
    stories = list(dict.fromkeys([*stories, *more]))
    if not (judges := unseen(held_out, stories)):
        raise UsageError(f"{texts[0]} is too short: of its {len(stories)} stories, none would be held out")
    return stories, judges


def _stories_to_train_on(file: Path) -> list[str]:
    stories, judges = read_stories(file), shipped_stories() if FILE.is_file() else []
    if len(unseen(judges, stories)) < len(judges):
        raise UsageError(f"{file} has stories of {name_of(FILE)}, which are reserved for evaluation")
    return stories


def _letters(story: str) -> str:
    return re.sub(r"[^a-z]", "", story.lower())
