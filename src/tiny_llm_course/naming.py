"""What somebody may have meant who named a task, a day or a week in another way than the course does."""

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .registry import Course

WORDS = ("week", "day", "task")
ALIKE = 0.75  # how much of a misspelt name has to be right


def meant(course: "Course", text: str) -> str:
    """What there is of that name: "1.1" for "day 1", "1.1.1" for "softmax", the tasks of a file; or "" for nothing."""
    plain = unicodedata.normalize("NFKC", text).strip().lower()
    file = PurePath(plain).stem
    of_the_file = [task.id for task in course.tasks() if any(target.module == file for target in task.targets)]
    return ", ".join(of_the_file) or _by_numbers(course, plain) or _by_words(course, plain)


def is_in_words(names: Sequence[str]) -> bool:
    """Whether several names are one in words, such as `week 1 day 2`."""
    words = [name.lower() in WORDS for name in names]
    return any(words) and all(word or name.isdigit() for word, name in zip(words, names, strict=True))


def _by_numbers(course: "Course", plain: str) -> str:
    numbers = [str(int(number)) for number in re.findall(r"\d{1,4}", plain)]
    if len(numbers) == 1 and "day" in plain and course.weeks:
        numbers.insert(0, str(course.weeks[0].number))
    days = [day for week in course.weeks for day in week.days]
    known = {str(week.number) for week in course.weeks} | {f"{day.week}.{day.number}" for day in days}
    known |= {task.id for task in course.tasks()}
    return name if (name := ".".join(numbers)) in known else ""


def _by_words(course: "Course", plain: str) -> str:
    """A function, a class or a title, perhaps misspelt."""
    known: dict[str, str] = {}
    for task in course.tasks():
        for name in (task.title, *(part for target in task.targets for part in (target.name, *target.name.split(".")))):
            known.setdefault(name.lower(), task.id)
    near = get_close_matches(plain, known, 1, ALIKE)
    return known[near[0]] if near else ""
