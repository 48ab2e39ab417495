"""The week as one figure, from its records: throughput of each stage, of other engines, and the memory bound."""

import json

from tiny_llm_course.dev.book.bench_charts import PROGRESSION
from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.progression import LARGE, RECORD
from tiny_llm_course.measuring.progression_text import about as about_row
from tiny_llm_course.measuring.progression_text import measured


def generated_parts() -> Parts:
    """Return the figure, a table of its bars, and the machine."""
    small, large = (json.loads(record.read_text(encoding="utf-8")) for record in (RECORD, LARGE))
    caption = (
        "Throughput on a logarithmic scale, with the speed-up over the first bar in brackets. Of each pair, the upper "
        "bar and the first number are the course's model, and the others random weights in the shape of Qwen3-0.6B. "
        "Filled bars are our stages, and hollow bars are other engines. A line is a memory bound: the throughput at "
        "which every byte of the weights and the cache is read once per token."
    )
    figure = PROGRESSION.figure(small | {"beside": large}, "progression-2", caption)
    rows = [f"| {row['name']} | {about_row(row, small['tokens'])} |" for row in measured(small["rows"])]
    short = [row["name"] for row in measured(large["rows"]) if row.get("tokens", large["tokens"]) < large["tokens"]]
    note = f"Of the larger model, too slow for {large['tokens']} tokens and measured on fewer: {', '.join(short)}."
    machine = f"*{measured_on(small)}*"
    return {"progression": "\n".join([figure, "| Bar | What it is |", "|:--|:--|", *rows, "", note, "", machine, ""])}
