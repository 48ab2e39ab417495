"""Suggestions for a misspelt task, day, week or option."""

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath

Named = tuple[str, str, str, str]  # a task's id, its target's file and name, its title

WORDS = ("week", "day", "task")
ALIKE = 0.75  # how much of a misspelt name has to be right


def meant(text: str, tasks: Sequence[Named]) -> str:
    """Return what was probably meant: "1.1" for "day 1", "1.1.1" for "softmax", a file's tasks; "" for nothing."""
    plain = unicodedata.normalize("NFKC", text).strip().lower()
    file = PurePath(plain).stem
    of_the_file = [task for task, path, *_ in tasks if PurePath(path).stem == file]
    return ", ".join(of_the_file) or _by_numbers(plain, [task for task, *_ in tasks]) or _by_words(plain, tasks)


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the known name most like this one, or ""."""
    spelled = {_spelled(one): one for one in known}
    near = get_close_matches(_spelled(name), spelled, 1, ALIKE)
    return spelled[near[0]] if near else ""


def is_in_words(names: Sequence[str]) -> bool:
    """Return whether several names are one in words, such as `week 1 day 2`."""
    words = [name.lower() in WORDS for name in names]
    return any(words) and all(word or name.isdigit() for word, name in zip(words, names, strict=True))


def _spelled(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name.lower().replace("'", ""))


def _by_numbers(plain: str, tasks: Sequence[str]) -> str:
    numbers = [str(int(number)) for number in re.findall(r"\d{1,4}", plain)]
    if len(numbers) == 1 and "day" in plain and tasks:
        numbers.insert(0, tasks[0].partition(".")[0])
    known = {".".join(task.split(".")[:parts]) for task in tasks for parts in (1, 2, 3)}
    return name if (name := ".".join(numbers)) in known else ""


def _by_words(plain: str, tasks: Sequence[Named]) -> str:
    """Match a function, a class or a title, perhaps misspelt."""
    known: dict[str, str] = {}
    for task, _, target, title in tasks:
        for name in (title, target, *target.split(".")):
            known.setdefault(name.lower(), task)
    near = get_close_matches(plain, known, 1, ALIKE)
    return known[near[0]] if near else ""
