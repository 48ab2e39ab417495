"""The week as one figure, from its records: throughput of each stage, of other engines, and the memory bound."""

import json

from tiny_llm_course.dev.book.measured import PROGRESSION, measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.progression import LARGE, RECORD
from tiny_llm_course.measuring.progression_text import about as about_row
from tiny_llm_course.measuring.progression_text import measured


def generated_parts() -> Parts:
    """Return the figure, a table of its bars, and the machine."""
    small, large = (json.loads(record.read_text(encoding="utf-8")) for record in (RECORD, LARGE))
    caption = (
        "Throughput on a logarithmic scale, with the speed-up over the first bar in brackets. In each pair, the upper "
        "bar and the first number are for the course's model. The lower bar and the second number are for random "
        "weights in the shape of Qwen3-0.6B. Filled bars are our stages, and hollow bars are other engines. A line is "
        "the limit set by memory bandwidth: the throughput if each byte of the weights and the cache is loaded once "
        "per token."
    )
    figure = PROGRESSION.figure(small | {"beside": large}, "progression-2", caption)
    rows = [f"| {row['name']} | {about_row(row, small['tokens'])} |" for row in measured(small["rows"])]
    short = [row["name"] for row in measured(large["rows"]) if row.get("tokens", large["tokens"]) < large["tokens"]]
    note = (
        f"With the larger model, these are too slow for {large['tokens']} tokens and generated fewer: "
        f"{', '.join(short)}."
    )
    machine = f"*{measured_on(small)}*"
    return {"progression": "\n".join([figure, "| Bar | What it is |", "|:--|:--|", *rows, "", note, "", machine, ""])}
