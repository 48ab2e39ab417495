"""Evaluation items, whether an answer is right, and the file they are read from."""

import dataclasses
import string
import tomllib
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Item:
    """A prompt and its choices, of which one is right."""

    prompt: str
    choices: tuple[str, ...]
    answer: int  # the index of the right choice


def load_items(path: Path) -> list[Item]:
    """Read the `[[items]]` of a TOML file, each with a prompt, choices and an answer.

    Raises:
        ValueError: an answer is not the index of one of its item's choices. The message states the item's index.
    """
    found = tomllib.loads(path.read_text(encoding="utf-8"))["items"]
    items = [Item(each["prompt"], tuple(each["choices"]), each["answer"]) for each in found]
    for number, item in enumerate(items):
        if not 0 <= item.answer < len(item.choices):
            raise ValueError(f"item {number}: answer {item.answer} is none of {len(item.choices)} choices")
    return items


def credit(scores: Sequence[float], answer: int) -> float:
    """Return 1 if the right choice has the highest score, 1/t if it is one of t that share it, and 0 if not.

    A tie gives what guessing among the tied choices gives on average. To take the first of them would make the result
    depend on the order of the choices.
    """
    best = max(scores)
    return 1 / sum(score == best for score in scores) if scores[answer] == best else 0.0


def normalize_answer(text: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, and with single spaces between its words."""
    return " ".join(text.lower().translate(str.maketrans("", "", string.punctuation)).split())


def exact_match(answer: str, references: Sequence[str]) -> bool:
    """Return whether a generated answer equals one of the references, all of them normalized by `normalize_answer`."""
    return normalize_answer(answer) in map(normalize_answer, references)
