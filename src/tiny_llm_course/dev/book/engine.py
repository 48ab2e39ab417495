"""The engine as the registry describes it: a box for each part that a task implements, in nested frames.

Chapters show it as a map, nested lists of links that `book/engine.css` draws, without later weeks' parts. Today's boxes
are highlighted, and earlier ones ticked.
"""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from ...course.entities import Day, Task
from ...course.registry import Course
from .parts import Parts

PAGE = "model.md"  # the page with the whole engine and its numbers


@dataclass
class Part:
    """A box and the boxes inside it."""

    path: str
    task: Task | None = None  # that implements it; the registry's check guarantees that there is one
    parts: list["Part"] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The text in the box."""
        return self.path.rpartition("/")[2]

    def __iter__(self) -> Iterator["Part"]:
        yield self
        for part in self.parts:
            yield from part


def engine(tasks: Sequence[Task]) -> list[Part]:
    """Return the boxes that these tasks implement, in the order of the data flow."""
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
    """Return the `map` of a day that implements a part of the engine, or of a week with such a day."""
    own = course.week(week).days
    if not any(task.makes for day in ([today] if today else own) for task in day.tasks):
        return {}
    days, page = [day for day in course.days() if day.week <= week], (today or own[0]).chapter
    boxes = engine([task for day in days for task in day.tasks])
    by_number = {(day.week, day.number): day for day in days}
    lines = ['<nav class="engine-map" aria-label="The engine, part by part">', *_list(boxes, page, by_number, today)]
    whole = f'<a href="{posixpath.relpath(PAGE, posixpath.dirname(page))}">The whole engine, with all its numbers</a>'
    later = today and today.number < max(
        task.day for part in boxes for box in part if (task := box.task) and task.week == week
    )
    key = f"Highlighted: today. ✓: done. {'Dashed: later. ' if later else ''}" if today else ""
    lines.append(f"<p>{key}{whole}.</p>")
    return {"map": "\n".join([*lines, "</nav>", ""])}


def link(part: Part, days: dict[tuple[int, int], Day], page: str) -> tuple[str, str]:
    """Return a box's link, relative to a page of the book, and its title."""
    assert part.task
    day = days[part.task.week, part.task.day]
    address = f"{posixpath.relpath(day.chapter, posixpath.dirname(page))}#task-{part.task.id.replace('.', '-')}"
    return address, f"Week {day.week}, {day.called}: {day.title}"


def _list(boxes: list[Part], page: str, days: dict[tuple[int, int], Day], today: Day | None) -> Iterator[str]:
    yield "<ol>"
    for part in boxes:
        (address, title), looks, task = link(part, days, page), "", part.task
        done = bool(today and task and (task.week, task.day) < (today.week, today.number))
        if today:
            looks = ' aria-current="page"' if task in today.tasks else f' class="{"done" if done else "later"}"'
        box = f'<a href="{address}" title="{escape(title)}"{looks}>{"✓ " if done else ""}{escape(part.name)}</a>'
        if part.parts:
            yield f'<li class="frame">{box}'
            yield from _list(part.parts, page, days, today)
            yield "</li>"
        else:
            yield f"<li>{box}</li>"
    yield "</ol>"
