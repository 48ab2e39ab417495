"""The legend of the figures, and the whole model on one page: the engine's boxes with their numbers for one sentence.

The boxes come from the registry, their content from `engine_facts` in the weeks' scripts. `<model-zoom>` shows one
frame at a time; on paper and without JavaScript all frames are nested `<details>`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from tiny_llm_course.course.registry import Course, load_course
from tiny_llm_course.dev.book.drawing import ROLES, Canvas, matrix, squares
from tiny_llm_course.dev.book.drawing.canvas import width_of
from tiny_llm_course.dev.book.engine import PAGE, Part, engine, link
from tiny_llm_course.dev.book.html import element, number
from tiny_llm_course.dev.book.listings import script_at
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.rounding import Array64

CELL, WIDTH = 24.0, 368.0  # pixels: of a number's square, and of a phone's screen


@dataclass(frozen=True)
class Shown:
    """An array of a box: a row for each token, and the first of its columns."""

    name: str
    role: str | None
    values: Array64  # [layers x [heads x]] tokens x columns
    whole: int  # how many columns it has
    causal: bool = False  # its columns are tokens, and later ones are masked


class Facts(NamedTuple):
    """The facts of a box, without the boxes inside it."""

    about: str
    shape: str
    weights: int = 0
    milliseconds: float = 0.0
    arrays: tuple[Shown, ...] = ()
    rows: tuple[tuple[str, str, float], ...] = ()  # of a list: a label, its number, and its bar's length


@dataclass(frozen=True)
class Sentence:
    """The tokens, and the layer, head and token that are shown first."""

    tokens: list[str]
    first: dict[str, int]
    measured: str  # when and on which machine the times were measured


def model_page(course: Course, sentence: Sentence, facts: Mapping[str, Facts]) -> str:
    """Return the widget, with all boxes nested below it."""
    boxes = engine(course.tasks())
    days = {(day.week, day.number): day for day in course.days()}
    sums = {}
    for path in (part.path for whole in boxes for part in whole):
        inside = [known for name, known in facts.items() if f"{name}/".startswith(f"{path}/")]
        sums[path] = sum(known.weights for known in inside), sum(known.milliseconds for known in inside)
    totals = [sum(column) or 1.0 for column in zip(*(sums[part.path] for part in boxes), strict=True)]

    def data_of(part: Part) -> dict[str, Any]:
        """Return a box as the widget gets it."""
        address, title = link(part, days, PAGE)
        box: dict[str, Any] = {"path": part.path, "name": part.name, "parts": list(map(data_of, part.parts))}
        box |= {"href": address.replace(".md#", ".html#"), "title": title, "weights": sums[part.path][0]}
        box["shares"] = [round(100 * x / total, 2) for x, total in zip(sums[part.path], totals, strict=True)]
        if known := facts.get(part.path):
            box |= {"about": known.about, "shape": known.shape, "rows": known.rows}
            box["arrays"] = [vars(each) | {"values": (each.values.round(2) + 0.0).tolist()} for each in known.arrays]
        return box

    all_data = [data_of(part) for part in boxes]
    data = {**vars(sentence), "boxes": all_data, "weights": int(totals[0])}
    nested = [line for box in all_data for line in _nested(box, facts, sentence)]
    return element("model-zoom", data, *nested, f"<p>{escape(sentence.measured)}</p>")


def _nested(box: dict[str, Any], facts: Mapping[str, Facts], sentence: Sentence) -> Iterator[str]:
    weights, time = (number(share, 1) for share in box["shares"])
    shares = f"{weights} % of the weights, {time} % of the time"
    yield f"<details><summary><b>{escape(box['name'])}</b>: {shares}</summary>"
    known = facts.get(box["path"])
    about = f"{known.about} Shape: {known.shape}. " if known else ""
    yield f'<p>{escape(about)}<a href="{box["href"]}">{escape(box["title"])}</a></p>'
    if known:
        slug = re.sub(r"\W+", "-", box["path"])
        for i, shown in enumerate(known.arrays):
            yield _picture(f"model-{slug}-{i}", shown, sentence).rstrip("\n")
        yield from (f"<p>{escape(what)}: {escape(words)}</p>" for what, words, _ in known.rows)
    for part in box["parts"]:
        yield from _nested(part, facts, sentence)
    yield "</details>"


def _picture(name: str, shown: Shown, sentence: Sentence) -> str:
    """Draw an array of the layer and the head that are shown first."""
    chosen = [sentence.first[what] for what in ("layer", "head")][: shown.values.ndim - 2]
    values = shown.values[tuple(chosen)]
    where = "".join(f", {what} {at}" for what, at in zip(("layer", "head"), chosen, strict=False))
    count = values.shape[1]
    part = f": the first {count} of {shown.whole} elements" if count < shown.whole else ""
    canvas, row = Canvas(), sentence.first["row"]
    if count == len(sentence.tokens):
        hidden = np.triu(np.ones_like(values, dtype=np.bool_), 1) if shown.causal else None
        matrix(canvas, values, sentence.tokens, sentence.tokens, shown.role, hidden=hidden, lit=row)
    else:
        left = max(map(width_of, sentence.tokens)) + 10
        cell = min(CELL, (WIDTH - left) / count)
        for i, token in enumerate(sentence.tokens):
            canvas.text(left - 10, (i + 0.8) * cell, token, "strong" if i == row else "", "end")
        squares(canvas, left, 0, values, cell, shown.role)
    said = ", ".join(number(x) for x in values[row])
    title = f"{shown.name}{where}{part}"
    token = sentence.tokens[row]
    return canvas.figure(name, title, f"{token}: {said}.", f"{escape(title)}. <b>{escape(token)}</b>: {said}")


def legend_parts() -> Parts:
    """Return `roles`, a table of the colors, and `squares`, a drawing of a small array."""
    rows = []  # of a role: a sentence, a formula, a box and a square
    for role, (letter, meaning) in ROLES.items():
        looks = f"role-{role}"
        drawn = (
            '<svg viewBox="0 0 92 26" width="92" height="26" role="img"><title>a box, an arrow, a square</title>'
            f'<rect x="2" y="3" width="30" height="20" rx="4" class="frame {looks}"/>'
            f'<polyline points="36,13 58,13" class="line {looks}"/>'
            f'<polygon points="64,13 57,9 57,17" class="head {looks}"/>'
            f'<rect x="70" y="5" width="16" height="16" class="fill {looks}"/></svg>'
        )
        cells = [f'<span class="{looks}">{role}</span>', f'<span class="{looks}"><i>{letter}</i></span>']
        cells += [f'<span class="drawn">{drawn}</span>', meaning]
        rows.append(f"| {' | '.join(cells)} |")
    roles = "\n".join(["| In a sentence | Letter | In a picture | What it is |", "|---|---|---|---|", *rows, ""])
    canvas, values = Canvas(), np.array([[4.0, 1.0, 0.25], [-4.0, -1.0, 0.0]])
    hidden = np.array([[False, False, False], [False, False, True]])
    matrix(canvas, values, ["first", "second"], ["first", "second", "third"], None, hidden=hidden)
    about = "Filled squares of three sizes for 4, 1 and 0.25; hollow squares for -4 and -1; a dot for a masked element."
    squares = canvas.figure("squares-course", "An array of two rows and three columns", about)
    return {"roles": roles, "squares": squares}


def generated_parts() -> Parts:
    """Return the legend, and the page of the whole model (`engine`), for which the first week chooses the sentence."""
    course = load_course()
    scripts = [script for week in course.weeks if (script := script_at(f"week{week.number}", "engine"))]
    facts = {name: found for script in scripts for name, found in script.engine_facts().items()}
    return legend_parts() | {"engine": model_page(course, scripts[0].engine_sentence(), facts)}
