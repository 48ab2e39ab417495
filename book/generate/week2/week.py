"""The week as one figure, from its record: throughput of each stage, of other engines, and the memory bound."""

import json

from tiny_llm_course.dev.book.bench_charts import PROGRESSION
from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.progression import RECORD
from tiny_llm_course.measuring.progression_text import about as about_row
from tiny_llm_course.measuring.progression_text import measured


def generated_parts() -> Parts:
    """Return the figure, a table of its bars, and the machine."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    caption = (
        f"Each bar is the throughput for the same {found['tokens']} tokens, on a logarithmic scale, with the speed-up "
        "over the first bar in brackets. Filled bars are our stages, and hollow bars are other engines. A line is a "
        "memory bound: the throughput at which every byte of the weights and the cache is read once per token."
    )
    figure = PROGRESSION.figure(found, "progression-2", caption)
    rows = [f"| {row['name']} | {about_row(row, found['tokens'])} |" for row in measured(found["rows"])]
    text = "\n".join([figure, "| Bar | What it is |", "|:--|:--|", *rows, "", f"*{measured_on(found)}*", ""])
    return {"progression": text}
