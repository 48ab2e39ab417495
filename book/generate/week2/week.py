"""The week as one picture, from its record: how fast each stage writes, other engines, and what memory allows."""

import json

from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.dev.book.progressions import TITLE, about, canvas_of
from tiny_llm_course.measuring.progression import RECORD
from tiny_llm_course.measuring.progression_text import about as about_row
from tiny_llm_course.measuring.progression_text import measured


def generated_parts() -> Parts:
    """The picture, and below it what each bar is, and where it was measured."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    caption = (
        f"The same {found['tokens']} tokens, written by each. At each mark the scale is ten times as far; in "
        "brackets, how many times as fast as the first. Filled: our stages. Hollow: other engines. A line: what memory "
        "allows, if every byte of the weights and the cache comes from it once for each token."
    )
    figure = canvas_of(found).figure("progression-2", TITLE, about(found), caption)
    rows = [f"| {row['name']} | {about_row(row, found['tokens'])} |" for row in measured(found["rows"])]
    text = "\n".join([figure, "| Bar | What it is |", "|:--|:--|", *rows, "", f"*{measured_on(found)}*", ""])
    return {"progression": text}
