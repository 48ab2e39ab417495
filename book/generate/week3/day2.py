"""Day 2's picture, a long prompt among texts that are being written, and what budgets of several sizes trade."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.drawing import Canvas
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.parts import Parts

SENTENCE, TOKENS, WRITERS = 5, 12, 3  # tokens of "That is a blue dog", and of what follows it
LONG, WRITES, COMES = 24, 3, 4  # the long prompt, what it writes, and the step before which it comes
BUDGET = 8
LEFT, RIGHT, ROW = 40.0, 366.0, 20.0  # pixels
LETTERS = "ABC"


def generated_parts() -> Parts:
    """The picture and the table."""
    return {"trace": trace(), "traded": traded()}


def run_of(budget: int) -> tuple[list[Any], list[Any]]:
    """What the scheduler does with three texts and a long prompt, in pieces of a budget or, without one, whole."""
    from tiny_llm_solution.serving.memory import DenseMemory
    from tiny_llm_solution.serving.plans import chunked_prefill, whole_prompts
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    def any_token(chunks: Sequence[Any], memory: object) -> mx.array:
        return mx.zeros((sum(chunk.scored for chunk in chunks), 2))

    plan = chunked_prefill if budget else whole_prompts
    scheduler = Scheduler(any_token, DenseMemory(1), plan=plan, budget=budget or 1)
    requests = [Request([1] * SENTENCE, TOKENS) for _ in range(WRITERS)]
    for request in requests:
        scheduler.submit(request)
    steps: list[Any] = []
    while scheduler.running or scheduler.waiting or len(steps) <= COMES:
        if len(steps) == COMES:
            requests.append(Request([1] * LONG, WRITES))
            scheduler.submit(requests[-1])
        steps.append(scheduler.step())
    return requests, steps


def read_by(steps: Sequence[Any]) -> list[int]:
    """How many tokens were read when each step began, and when the last one was done: the clock of the picture."""
    clock = [0]
    for step in steps:
        clock.append(clock[-1] + sum(len(chunk.tokens) for chunk in step.chunks))
    return clock


def figures_of(budget: int) -> tuple[float, int, float]:
    """The writers' largest TPOT, their longest gap and the long prompt's TTFT, in tokens that were read meanwhile."""
    from tiny_llm_solution.serving.latency import Latency, Times

    requests, steps = run_of(budget)
    clock = read_by(steps)
    times: dict[Any, list[int]] = {request: [] for request in requests}
    for step, now in zip(steps, clock[1:], strict=True):
        for chunk, new in zip(step.chunks, step.new, strict=True):
            times[chunk.request] += [now] * len(new)
    latency = Latency()
    for request, came in zip(requests, (0, 0, 0, clock[COMES]), strict=True):
        latency.add(Times(came, came, times[request]))
    longest = max(b - a for request in requests[:WRITERS] for a, b in pairwise(times[request]))
    return max(latency.tpot[:WRITERS]), longest, latency.ttft[-1]


def trace() -> str:
    """Both plans, a row for each request; a step is as wide as it has tokens to read."""
    from tiny_llm_solution.serving.timeline import timeline

    canvas, level = Canvas(), 0.0
    whole, pieces = run_of(0), run_of(BUDGET)
    scale = (RIGHT - LEFT) / max(read_by(steps)[-1] for _, steps in (whole, pieces))
    for heading, (requests, steps) in (("whole prompts", whole), (f"in pieces, a budget of {BUDGET}", pieces)):
        canvas.text(0, level + FONT, heading, "strong")
        level += FONT + 10
        clock = [LEFT + scale * read for read in read_by(steps)]
        rows = timeline(steps, {requests[-1]: COMES})
        for name, row in zip([*LETTERS, "long"], rows, strict=True):
            canvas.text(LEFT - 8, level + 13, name, "", "end")
            for state, left, right in zip(row.states, clock, clock[1:], strict=False):
                _mark(canvas, state, left, right, level)
            level += ROW
        for x in clock:
            canvas.path([(x, level), (x, level + 5)], "axis")
        level += SMALL + 12
    canvas.text(RIGHT, level - 2, "tokens read", "small", "end")
    a, b = figures_of(0), figures_of(BUDGET)
    about = (
        f"Two timelines of the same four requests. With whole prompts one step reads {LONG + WRITERS} tokens, and the "
        f"three writers have no token for so long. With a budget of {BUDGET} no step reads more than {BUDGET}."
    )
    caption = (
        f"Three texts are being written (a dot at the end of a step is a token) when a prompt of {LONG} tokens "
        f"comes. A bar reads a prompt; a step is as wide as it has tokens to read. The longest gap of a writer is "
        f"{a[1]} tokens wide in the first run and {b[1]} in the second; the long prompt's first token comes after "
        f"{a[2]} tokens, and after {b[2]}."
    )
    return canvas.figure("trace-3-2", "A long prompt among three that write, whole and in pieces", about, caption)


def _mark(canvas: Canvas, state: str, left: float, right: float, level: float) -> None:
    """What a request does in one step."""
    middle = level + ROW / 2 - 2
    if state == "p":
        canvas.rect(left + 1, middle - 6, max(right - left - 2, 1), 12, "fill series-0")
    if state in "df":
        canvas.path([(left, middle), (right, middle)], "axis")
        canvas.circle(right - 3, middle, 3, "fill series-0")
    if state == "w":
        canvas.circle((left + right) / 2, middle, 1.2, "dot")


def traded() -> str:
    """What a budget trades, for the requests of the picture."""
    lines = [
        "| Prompts are read | Writers' TPOT | their longest gap | TTFT of the long prompt |",
        "|:--|--:|--:|--:|",
    ]
    for name, budget in (("whole", 0), *((f"with a budget of {b}", b) for b in (16, 8, 6, 4))):
        tpot, gap, ttft = figures_of(budget)
        lines.append(f"| {name} | {tpot:.1f} | {gap} | {ttft} |")
    return "\n".join(lines) + "\n"
