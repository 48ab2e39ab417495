"""A request's way through the server; the recorded throughput and latency of each mode; its reference."""

import json

from book.generate.week3.server_reference import reference_parts

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.drawing import Boxes, Canvas, at_both_widths, flow
from tiny_llm_course.dev.book.measured import SERVING, measured_on
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.load.speed import RECORD

# What is under the names of the boxes: the days that build them, and the steps that use them.
DAYS: tuple[str, ...] = (
    "OpenAI's API",
    "admits, or 429",
    "text in pieces",
    "day 7: serves clients, queues tasks",
    "day 2: fair",
)
DAYS += ("day 6: drafts", "day 2: chunks", "day 4: pages", "day 3: pages; day 5: shared prefixes", "day 1")
STEPS = ("OpenAI's API", "1", "8", "2", "3", "8", "4", "6, 7", "5", "3 to 8")


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
    by_day, by_step = (
        "What is in the frame runs in the worker thread, step after step, and each step computes tokens of many "
        "requests. Day 1 builds this loop, and the other days replace its parts.",
        "The numbers are those of the table below. What is in the frame repeats until the request has its last token.",
    )
    ways = {"way": way("way-3", DAYS, by_day), "request": way("way-request", STEPS, by_step)}
    return ways | {"servings": text} | reference_parts()


def way(name: str, notes: tuple[str, ...], caption: str) -> str:
    """Draw a request's way from its client through the scheduler's step and back, with a note for each box."""
    names = ("client", "gate", "stream", "event loop", "queue", "sampler", "policy", "forward pass", "KV cache", "loop")
    boxes: Boxes = {box: f"{box}\n{note}" for box, note in zip(names, notes, strict=True) if box != "loop"}
    grid = [
        ["client"] * 4,
        ["gate", "gate", "stream", "stream"],
        ["event loop"] * 4,
        ["queue", "queue", "sampler", "sampler"],
        ["policy", "policy", "forward pass", "forward pass"],
        ["KV cache"] * 4,
    ]
    arrows: list[tuple[str, ...]] = [
        ("client", "gate"),
        ("gate", "event loop"),
        ("event loop", "queue"),
        ("queue", "policy"),
        ("policy", "KV cache"),
        ("KV cache", "forward pass"),
        ("forward pass", "sampler"),
        ("sampler", "queue"),
        ("sampler", "event loop"),
        ("event loop", "stream"),
        ("stream", "client"),
    ]
    about = (
        "A request goes from the client through the gate to the event loop, and from there into the queue. A step of "
        "the scheduler goes through the queue, the policy, the KV cache, the forward pass and the sampler, and then "
        "the next step begins. Sampled tokens go back through the event loop and the stream to the client."
    )
    caption = f"A request goes down on the left, and its tokens go up on the right. {caption}"

    def draw(canvas: Canvas) -> None:
        frames = flow(canvas, grid, boxes, arrows, gap=(canvas.width - 144) / 3, corner=(10, 0))
        (_, top, _, high), (left, bottom, wide, _), middle = frames["queue"], frames["KV cache"], canvas.width / 2 - 2
        canvas.rect(left - 8, top - 8, wide + 16, bottom + high - top + 16, "frame series-0", 8)
        for words, y, looks in (
            ("next step", 0.5 * high - 8, ""),
            ("loop", 1.6 * high, "strong"),
            (notes[-1], 2 * high, "small mono"),
        ):
            canvas.text(middle, top + y, words, looks, "middle")

    return at_both_widths(draw).figure(name, "A request's path through the server", about, caption)
