"""The engine as the registry has it: a box for each part that a task makes, in the frames that hold it.

Every chapter shows it small, as a map: lists of links, arranged by `book/engine.css`, which wrap on a narrow page and
need no script. Today's boxes are lit, those of past days ticked, and a frame is open if a box of today is in it. What
later weeks will make is not there yet.
"""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from ...course.nouns import Day, Task
from ...course.registry import Course
from .parts import Parts

PAGE = "model.md"  # where the whole of it is, with its numbers


@dataclass
class Part:
    """A box, with those within it."""

    path: str
    task: Task | None = None  # which makes it: always known of what the registry's check has passed
    parts: list["Part"] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What stands in the box."""
        return self.path.rpartition("/")[2]

    def __iter__(self) -> Iterator["Part"]:
        """Itself, and all within it."""
        yield self
        for part in self.parts:
            yield from part


def engine(tasks: Sequence[Task]) -> list[Part]:
    """The boxes that these tasks make, in the order in which data goes through them."""
    whole = Part("")
    for task in tasks:
        for box in task.makes:
            frame = whole
            names = box.path.split("/")
            for i, name in enumerate(names):
                here = [part.name for part in frame.parts]
                if name not in here:
                    at = here.index(box.before) if box.before and i == len(names) - 1 else len(here)
                    frame.parts.insert(at, Part("/".join(names[: i + 1])))
                    here.insert(at, name)
                frame = frame.parts[here.index(name)]
            frame.task = task
    return whole.parts


def map_parts(course: Course, week: int, today: Day | None = None) -> Parts:
    """Draw the `map` of a day that makes a part of the engine, or of a week with such a day; nothing is lit in that."""
    own = course.week(week).days
    if not any(task.makes for day in ([today] if today else own) for task in day.tasks):
        return {}
    days = [day for day in course.days() if day.week <= week]
    boxes = engine([task for day in days for task in day.tasks])
    return {"map": _map(boxes, (today or own[0]).chapter, days, today)}


def link(part: Part, days: dict[tuple[int, int], Day], page: str) -> tuple[str, str]:
    """Where a box leads to from a page of the book, and what there is."""
    assert part.task
    day = days[part.task.week, part.task.day]
    address = f"{posixpath.relpath(day.chapter, posixpath.dirname(page))}#task-{part.task.id.replace('.', '-')}"
    return address, f"Week {day.week}, {day.called}: {day.title}"


def _map(boxes: list[Part], page: str, days: Sequence[Day], today: Day | None) -> str:
    by_number = {(day.week, day.number): day for day in days}
    lines = ['<nav class="engine-map" aria-label="The engine, part by part">', *_list(boxes, page, by_number, today)]
    whole = f'<a href="{posixpath.relpath(PAGE, posixpath.dirname(page))}">The same with all its numbers</a>'
    lines.append(f"<p>{'Lit: today. ✓: done. Dashed: to come. ' if today else ''}{whole}.</p>")
    return "\n".join([*lines, "</nav>", ""])


def _list(boxes: list[Part], page: str, days: dict[tuple[int, int], Day], today: Day | None) -> Iterator[str]:
    yield "<ol>"
    for part in boxes:
        address, title = link(part, days, page)
        looks, done = _looks(part, today)
        box = f'<a href="{address}" title="{escape(title)}"{looks}>{"✓ " if done else ""}{escape(part.name)}</a>'
        if part.parts and (today is None or any(_is_of(today, within) for within in part)):
            yield f'<li class="frame">{box}'
            yield from _list(part.parts, page, days, today)
            yield "</li>"
        else:
            yield f"<li>{box}</li>"
    yield "</ol>"


def _looks(part: Part, today: Day | None) -> tuple[str, bool]:
    """The attributes of a box, and whether it is there already."""
    if today is None:
        return "", False
    assert part.task
    if _is_of(today, part):
        return ' aria-current="page"', False
    done = (part.task.week, part.task.day) < (today.week, today.number)
    return f' class="{"done" if done else "later"}"', done


def _is_of(day: Day, part: Part) -> bool:
    return part.task in day.tasks
