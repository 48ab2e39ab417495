"""The week as one figure, from its record: throughput and latency of each serving mode for the same requests."""

import json

from tiny_llm_course.dev.book.bench_charts import SERVING
from tiny_llm_course.dev.book.measured import measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.load.speed import RECORD


def generated_parts() -> Parts:
    """Return the figure, a table of its bars, and the machine."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    load = found["load"]
    caption = (
        f"The same {load['requests']} requests, half of which share a prefix: {load['read']:,} prompt tokens and "
        f"{load['written']:,} output tokens. Above, all arrive at once. Below, arrivals are Poisson, "
        f"{load['rate']:.0f} per second, and the bars are 95th percentiles."
    )
    figure = SERVING.figure(found, "servings-3", caption)
    rows = [f"| {row['name']} | {row['about']} |" for row in found["rows"]]
    text = "\n".join([figure, "| Stage | What it does |", "|:--|:--|", *rows, "", f"*{measured_on(found)}*", ""])
    return {"servings": text}
