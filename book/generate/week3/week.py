"""The week as one figure, from its record: throughput and latency of each serving mode; the server's reference."""

import json

from book.generate.week3.server_reference import reference_parts

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.bench_charts import SERVING, measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.load.speed import RECORD


def generated_parts() -> Parts:
    """Return the figure, a table of its bars and the machine; the tables of the server's parameters and errors."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    load = found["load"]
    caption = (
        f"Each bar is a serving mode, measured on the same {load['requests']} requests, half of which share a prefix, "
        f"with {load['read']:,} prompt tokens and {load['written']:,} output tokens. Above, all requests arrive at "
        f"once. Below, arrivals are Poisson, {load['rate']:.0f} per second, and the bars are 95th percentiles of the "
        "latencies."
    )
    figure = SERVING.figure(found, "servings-3", caption)
    titles = {mode.name: mode.title for mode in load_course().modes()}
    rows = [f"| {row['name']} | {titles[row['name']]} |" for row in found["rows"]]
    text = "\n".join([figure, "| Mode | What it does |", "|:--|:--|", *rows, "", f"*{measured_on(found)}*", ""])
    return {"servings": text} | reference_parts()
