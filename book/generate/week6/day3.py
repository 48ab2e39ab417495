"""Day 3's figures, a step as simulated and as recorded from two processes; its table of costs; and its widget."""

import json
from collections.abc import Sequence
from pathlib import Path

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.clock import number as milliseconds
from tiny_llm_course.measuring.machine import in_words
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.distributed.cost import CostModel  # noqa: E402
from tiny_llm_solution.pipeline.costs import Work, communication_seconds  # noqa: E402
from tiny_llm_solution.pipeline.passes import Pass, Timeline, gpipe, simulate  # noqa: E402
from tiny_llm_solution.pipeline.schedule import one_forward_one_backward  # noqa: E402

STAGES, MICRO_BATCHES = 3, 4  # the running example
ORDERS = {"1F1B": one_forward_one_backward, "GPipe": gpipe}
LEFT, ROW = 52.0, 26.0
RECORDED = Path(__file__).parents[3] / "benches" / "week6" / "timeline.json"
WIDGET = {"stages": 6, "micro": 16}

RANKS, OF_PIPELINE = 4, 8  # of the table of costs; micro-batches
ETHERNET = "10 Gb/s Ethernet"
LINKS = {ETHERNET: CostModel(30e-6, 1 / 1.25e9), "NVLink, 450 GB/s": CostModel(3e-6, 1 / 450e9)}
QWEN = {"parameters": 596_049_920, "layers": 28, "hidden_size": 1024}  # Qwen3-0.6B
STEPS = {
    "training, 8,192 tokens": Work(**QWEN, tokens=8192, training=True),
    "decoding, 8 tokens": Work(**QWEN, tokens=8, training=False),
}


def generated_parts() -> Parts:
    """Return the figures, the table, the widget and the message."""
    return {
        "recorded": recorded(),
        "method-costs": method_costs(),
        "costs": costs(),
        "pipeline-slots": element("pipeline-slots", {"orders": list(ORDERS), **WIDGET}, orders().rstrip()),
    }


def timeline_of(name: str, count: int = STAGES, micro_batches: int = MICRO_BATCHES) -> Timeline:
    """Return a simulated step."""
    found: Timeline = simulate([ORDERS[name](rank, count, micro_batches) for rank in range(count)])
    return found


def box(canvas: Canvas, x: float, y: float, width: float, what: Pass, named: bool) -> None:
    """Draw a pass: a forward pass as an outline, a backward pass with a filled bar below."""
    canvas.rect(x + 0.5, y, width - 1, ROW - 6, "hollow" if what.forward else "hollow series-1")
    if not what.forward:
        canvas.rect(x + 0.5, y + ROW - 10, width - 1, 4, "fill series-1")
    if named:
        canvas.text(x + width / 2, y + 13, str(what), "small", "middle")


def orders() -> str:
    """Draw the running example in both orders."""
    found = {name: timeline_of(name) for name in reversed(ORDERS)}

    def draw(canvas: Canvas) -> None:
        unit = (canvas.width - LEFT - 6) / found["1F1B"].length
        y = FONT
        for name, timeline in found.items():
            held = ", ".join(map(str, timeline.held))
            canvas.text(0, y, f"{name}: at most {held} micro-batches held")
            for rank, slots in enumerate(timeline.stages):
                top = y + 8 + rank * ROW
                canvas.text(0, top + 14, f"stage {rank}", "small")
                for slot in slots:
                    width = (slot.end - slot.start) * unit
                    box(canvas, LEFT + slot.start * unit, top, width, slot.what, True)
            y += 8 + STAGES * ROW + FONT + 12

    one = found["1F1B"]
    caption = (
        f"Three stages and four micro-batches; time runs from left to right. F0 is the forward pass of micro-batch 0. "
        f"B0 is its backward pass, which takes twice as long. Both orders take {one.length:g} units of time, of which "
        f"each stage is idle for {one.length - 3 * MICRO_BATCHES:g}, a bubble of {100 * one.bubble:.0f} %. The "
        f"headings give the number of micro-batches that stages 0, 1 and 2 hold."
    )
    about = "; ".join(
        f"{name}, stage {rank}: {' '.join(str(slot.what) for slot in slots)}"
        for name, timeline in found.items()
        for rank, slots in enumerate(timeline.stages)
    )
    return at_both_widths(draw).figure("orders-6-3", "GPipe and 1F1B", f"{about}.", caption)


def recorded() -> str:
    """Draw one recorded step of each order, both on the same scale."""
    found = json.loads(RECORDED.read_text(encoding="utf-8"))
    steps: dict[str, list[list[tuple[bool, float, float]]]] = found["steps"]
    last = max(end for step in steps.values() for slots in step for _, _, end in slots)
    bubbles = {name: bubble(step) for name, step in steps.items()}

    def draw(canvas: Canvas) -> None:
        scale = (canvas.width - LEFT - 30) / last
        y = FONT
        for name, step in steps.items():
            canvas.text(0, y, f"{name}: {100 * bubbles[name]:.0f} % bubble")
            for rank, slots in enumerate(step):
                top = y + 8 + rank * ROW
                canvas.text(0, top + 14, f"stage {rank}", "small")
                for forward, start, end in slots:
                    box(canvas, LEFT + start * scale, top, max(2.0, (end - start) * scale), Pass(forward, 0), False)
            y += 8 + len(step) * ROW + FONT + 8
        top = y - FONT - 4
        canvas.path([(LEFT, top), (LEFT + last * scale, top)], "axis")
        every = next(each for each in (20, 50, 100, 200, 500, 1000, 2000) if last / each <= 5)
        for time in range(0, int(last) + 1, every):
            canvas.path([(LEFT + time * scale, top), (LEFT + time * scale, top + 4)], "axis")
            canvas.text(LEFT + time * scale, top + 18, f"{time}{' ms' if time else ''}", "small", "middle")

    count = sum(not forward for forward, _, _ in steps["1F1B"][0])
    caption = (
        f"One recorded step in each order, with two processes and {count} micro-batches. An outlined box is a forward "
        f"pass; a box with a bar is a backward pass. The last stage, which is the lower one, has no separate forward "
        f"passes, because its backward pass also computes the loss. Recorded on {in_words(found['machine'])}."
    )
    about = "; ".join(
        f"{name}, rank {rank}: {len(slots)} passes from {slots[0][1]:.0f} to {slots[-1][2]:.0f} ms"
        for name, step in steps.items()
        for rank, slots in enumerate(step)
    )
    return at_both_widths(draw).figure("recorded-6-3", "A step of two processes, recorded", f"{about}.", caption)


def bubble(step: Sequence[Sequence[tuple[bool, float, float]]]) -> float:
    """Return the share of the ranks' time without a pass."""
    slots = [slot for passes in step for slot in passes]
    span = max(end for _, _, end in slots) - min(start for _, start, _ in slots)
    return 1 - sum(end - start for _, start, end in slots) / (span * len(step))


def method_costs() -> str:
    """Return how the times of a training step over Ethernet come about: one operation, its time, and their number."""
    work, link = STEPS["training, 8,192 tokens"], LINKS[ETHERNET]
    row = work.hidden_size * work.num_bytes
    part = work.tokens * work.experts_per_token * row / RANKS**2
    per_pass = 2 * work.layers * 2  # two per layer, forward and backward
    each = {
        "data": ("rows of the batch", "all-reduce of all gradients", 1),
        "tensor": ("each matrix", "all-reduce of T x E activations", per_pass),
        "pipeline": ("layers", "message with T/M x E activations", 2 * (OF_PIPELINE + RANKS - 2)),
        "expert": ("experts", "all-to-all of kT rows", per_pass),
    }
    seconds = {
        "data": link.ring_all_reduce(work.parameters * work.num_bytes, RANKS),
        "tensor": link.ring_all_reduce(work.tokens * row, RANKS),
        "pipeline": link.message(work.tokens * row / OF_PIPELINE),
        "expert": sum(link.message((RANKS - step) * part) for step in range(1, RANKS)),
    }
    rows = []
    for name, total in communication_seconds(work, RANKS, link, OF_PIPELINE).items():
        divided, operation, count = each[name]
        assert abs(count * seconds[name] / total - 1) < 1e-9, name
        times = (milliseconds(1000 * seconds[name]), str(count), milliseconds(1000 * total))
        rows.append([name, divided, operation.replace(" x ", " \N{MULTIPLICATION SIGN} "), *times])
    caption = f"Messages of the training step over {ETHERNET}: the time of one operation, and how often it runs"
    return table(caption, ["method", "divides", "operation", "ms for one", "how often", "ms in all"], rows) + "\n"


def costs() -> str:
    """Return the table of predicted times, for each link and step."""
    rows, methods = [], list[str]()
    for link, cost in LINKS.items():
        for step, work in STEPS.items():
            found = communication_seconds(work, RANKS, cost, OF_PIPELINE if work.tokens > OF_PIPELINE else 1)
            methods = list(found)
            rows.append(
                [
                    f"{step}; {link}",
                    *(milliseconds(1000 * seconds) if seconds else "\N{EN DASH}" for seconds in found.values()),
                ]
            )
    caption = (
        f"Predicted communication time per step, in milliseconds, on {RANKS} ranks. Pipelines use {OF_PIPELINE} "
        "micro-batches (1 in decoding)."
    )
    return table(caption, ["step and link", *methods], rows) + "\n"
