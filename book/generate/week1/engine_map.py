"""The map of the engine that every chapter of week 1 shows: a box for each part, today's lit, past ones ticked.

Lists of links, arranged by `book/widgets/engine-map.css`: they wrap on a narrow page, and need no script.
"""

import posixpath
from collections.abc import Iterator
from html import escape

from tiny_llm_course.course.nouns import Day
from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.parts import Parts

# A box is its name and the day that makes it; a frame around boxes has these as a third.
Box = tuple[str, str] | tuple[str, str, tuple["Box", ...]]
ATTENTION: tuple[Box, ...] = (("RoPE", "1.2"), ("GQA", "1.3"), ("mask", "1.3"), ("softmax", "1.1"))
LAYER: tuple[Box, ...] = (("norm", "1.4"), ("attention", "1.1", ATTENTION), ("norm", "1.4"), ("MLP", "1.4"))
ENGINE: tuple[Box, ...] = (
    ("tokens", "1.6"),
    ("embedding", "1.5"),
    ("layers", "1.5", LAYER),
    ("norm", "1.4"),
    ("logits", "1.5"),
    ("sampler", "1.7"),
    ("text", "1.6"),
)


def generated_parts(course: Course) -> Parts:
    """A map for each day that makes a part of the engine, and one for the week, where nothing is lit."""
    days = {day.name: day for day in course.days()}
    made = {day for _, day in _parts(ENGINE)}
    maps = {(name, "map"): _map(days, days[name]) for name in sorted(made)}
    return maps | {("1", "map"): _map(days, None)}


def _parts(boxes: tuple[Box, ...]) -> Iterator[tuple[str, str]]:
    for name, day, *inside in boxes:
        yield name, day
        for within in inside:
            yield from _parts(within)


def _map(days: dict[str, Day], today: Day | None) -> str:
    lines = ['<nav class="engine-map" aria-label="The engine, part by part">', *_list(ENGINE, days, today)]
    if today:
        lines.append("<p>Lit: today. ✓: done. Dashed: to come.</p>")
    return "\n".join([*lines, "</nav>", ""])


def _list(boxes: tuple[Box, ...], days: dict[str, Day], today: Day | None) -> Iterator[str]:
    yield "<ol>"
    for name, made, *inside in boxes:
        link = _link(name, days[made], today)
        if inside:
            yield f'<li class="frame">{link}'
            yield from _list(inside[0], days, today)
            yield "</li>"
        else:
            yield f"<li>{link}</li>"
    yield "</ol>"


def _link(name: str, made: Day, today: Day | None) -> str:
    place, done = "", False
    if today:
        order = (made.week, made.number), (today.week, today.number)
        done = order[0] < order[1]
        place = ' aria-current="page"' if order[0] == order[1] else ' class="done"' if done else ' class="later"'
    address = posixpath.relpath(
        made.chapter, posixpath.dirname((today or made).chapter)
    )  # the week's page lies there too
    title = escape(f"Day {made.number}: {made.title}")
    return f'<a href="{address}" title="{title}"{place}>{"✓ " if done else ""}{escape(name)}</a>'
