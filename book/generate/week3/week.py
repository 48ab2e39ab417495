"""The week as one picture, from its record: what each way to serve makes of the same requests, and when."""

import json

from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.dev.book.servings import TITLE, about, canvas_of
from tiny_llm_course.measuring.load.speed import RECORD


def generated_parts() -> Parts:
    """The picture, what each bar is, and where it was measured."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    load = found["load"]
    caption = (
        f"The same {load['requests']} requests, half of which begin alike: {load['read']:,} tokens to read and "
        f"{load['written']:,} to write. Above, all come at once. Below, they come by chance, {load['rate']:.0f} a "
        "second, and one of twenty waits longer than the bar says."
    )
    figure = canvas_of(found).figure("servings-3", TITLE, about(found), caption)
    rows = [f"| {row['name']} | {row['about']} |" for row in found["rows"]]
    text = "\n".join([figure, "| Stage | What it does |", "|:--|:--|", *rows, "", f"*{measured_on(found)}*", ""])
    return {"servings": text}
