"""A request's way through the server; the recorded throughput and latency of each mode; its reference."""

import json

from book.generate.week3.server_reference import reference_parts

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Boxes, Canvas, at_both_widths, flow
from tiny_llm_course.dev.book.measured import SERVING, measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.load.speed import RECORD


def generated_parts() -> Parts:
    """Return the figures, a table of its bars and the machine; the tables of the server's parameters and errors."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    load = found["load"]
    caption = (
        f"Each bar is a serving mode, measured on the same {load['requests']} requests, half of which share a prefix, "
        f"with {load['read']:,} prompt tokens and {load['written']:,} output tokens. Above, all requests arrive at "
        f"once. Below, arrivals follow a Poisson process with {load['rate']:.0f} per second, and the bars are 95th "
        "percentiles of the latencies."
    )
    figure = SERVING.figure(found, "servings-3", caption)
    titles = {mode.name: mode.title for mode in load_course().modes()}
    rows = [f"| {row['name']} | {titles[row['name']]} |" for row in found["rows"]]
    text = "\n".join([figure, "| Mode | What it does |", "|:--|:--|", *rows, "", f"*{measured_on(found)}*", ""])
    return {"way": way(), "servings": text} | reference_parts()


def way() -> str:
    """Draw a request's way from its client through the scheduler's step and back."""
    boxes: Boxes = {
        "client": "client\nOpenAI's API",
        "gate": "gate\nadmits, or 429",
        "stream": "stream\ntext in pieces",
        "loop": "event loop\nday 7: serves clients, queues tasks",
        "queue": "queue\nday 2: fair",
        "sampler": "sampler\nday 6: drafts",
        "policy": "policy\nday 2: chunks",
        "model": "forward pass\nday 4: pages",
        "cache": "KV cache\nday 3: pages; day 5: shared prefixes",
    }
    grid = [
        ["client"] * 4,
        ["gate", "gate", "stream", "stream"],
        ["loop"] * 4,
        ["queue", "queue", "sampler", "sampler"],
        ["policy", "policy", "model", "model"],
        ["cache"] * 4,
    ]
    arrows: list[tuple[str, ...]] = [
        ("client", "gate"),
        ("gate", "loop"),
        ("loop", "queue"),
        ("queue", "policy"),
        ("policy", "cache"),
        ("cache", "model"),
        ("model", "sampler"),
        ("sampler", "queue"),
        ("sampler", "loop"),
        ("loop", "stream"),
        ("stream", "client"),
    ]
    about = (
        "A request goes from the client through the gate to the event loop, and from there into the queue. A step of "
        "the scheduler goes through the queue, the policy, the KV cache, the forward pass and the sampler, and then "
        "the next step begins. Sampled tokens go back through the event loop and the stream to the client."
    )
    caption = (
        "A request goes down on the left, and its tokens go up on the right. What is in the frame runs in "
        "the worker thread, step after step, and each step computes tokens of many requests. Day 1 builds this loop, "
        "and the other days replace its parts."
    )

    def draw(canvas: Canvas) -> None:
        frames = flow(canvas, grid, boxes, arrows, gap=(canvas.width - 144) / 3, corner=(10, 0))
        (_, top, _, high), (left, bottom, wide, _), middle = frames["queue"], frames["cache"], canvas.width / 2 - 2
        canvas.rect(left - 8, top - 8, wide + 16, bottom + high - top + 16, "frame series-0", 8)
        for words, y, looks in (
            ("next step", 0.5 * high - 8, ""),
            ("loop", 1.6 * high, "strong"),
            ("day 1", 2 * high, "small mono"),
        ):
            canvas.text(middle, top + y, words, looks, "middle")

    return at_both_widths(draw).figure("way-3", "A request's path through the server", about, caption)
