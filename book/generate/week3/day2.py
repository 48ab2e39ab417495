"""Day 2's figure, a long prompt among decoding requests, and the trade-off of several token budgets."""

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
    """Return the figure and the table."""
    return {"trace": trace(), "traded": traded()}


def run_of(budget: int) -> tuple[list[Any], list[Any]]:
    """Run the scheduler with three requests and a long prompt, chunked by the budget or, if it is 0, unchunked."""
    from tiny_llm_solution.serving.kv_cache import DenseKVCache
    from tiny_llm_solution.serving.policies import chunked_prefill, unchunked_prefill
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    def any_token(chunks: Sequence[Any], memory: object) -> mx.array:
        return mx.zeros((sum(chunk.num_logits for chunk in chunks), 2))

    plan = chunked_prefill if budget else unchunked_prefill
    scheduler = Scheduler(any_token, DenseKVCache(1), policy=plan, max_num_batched_tokens=budget or 1)
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
    """Return the number of tokens processed before each step and after the last one: the figure's clock."""
    clock = [0]
    for step in steps:
        clock.append(clock[-1] + sum(len(chunk.tokens) for chunk in step.chunks))
    return clock


def figures_of(budget: int) -> tuple[float, int, float]:
    """Return the largest TPOT and ITL of the decoding requests and the long prompt's TTFT, in computed tokens."""
    from tiny_llm_solution.serving.latency import Latency, RequestTimes

    requests, steps = run_of(budget)
    clock = read_by(steps)
    times: dict[Any, list[int]] = {request: [] for request in requests}
    for step, now in zip(steps, clock[1:], strict=True):
        for chunk, new in zip(step.chunks, step.new, strict=True):
            times[chunk.request] += [now] * len(new)
    latency = Latency()
    for request, came in zip(requests, (0, 0, 0, clock[COMES]), strict=True):
        latency.add(RequestTimes(came, came, times[request]))
    longest = max(b - a for request in requests[:WRITERS] for a, b in pairwise(times[request]))
    return max(latency.tpot[:WRITERS]), longest, latency.ttft[-1]


def trace() -> str:
    """Draw both policies, with a row for each request; a step is as wide as its number of tokens."""
    from tiny_llm_solution.serving.timeline import timeline

    canvas, level = Canvas(), 0.0
    whole, pieces = run_of(0), run_of(BUDGET)
    scale = (RIGHT - LEFT) / max(read_by(steps)[-1] for _, steps in (whole, pieces))
    for heading, (requests, steps) in (
        ("unchunked prefill", whole),
        (f"chunked prefill, token budget {BUDGET}", pieces),
    ):
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
    canvas.text(RIGHT, level - 2, "tokens processed", "small", "end")
    a, b = figures_of(0), figures_of(BUDGET)
    about = (
        f"Two timelines of the same four requests. Unchunked, one step processes {LONG + WRITERS} tokens, and the "
        f"three decoding requests get no token until it ends. With a token budget of {BUDGET}, no step processes more "
        f"than {BUDGET} tokens."
    )
    caption = (
        f"Three requests are decoding when a prompt of {LONG} tokens arrives. A bar is a prefill, a dot at the end of "
        f"a step is a generated token, and a step is as wide as the number of tokens that it processes. In processed "
        f"tokens, the maximum inter-token latency (ITL) is {a[1]} in the first run and {b[1]} in the second, and the "
        f"TTFT of the long prompt is {a[2]} and {b[2]}."
    )
    return canvas.figure(
        "trace-3-2", "A long prompt among three decoding requests, unchunked and chunked", about, caption
    )


def _mark(canvas: Canvas, state: str, left: float, right: float, level: float) -> None:
    """Draw what a request does in one step."""
    middle = level + ROW / 2 - 2
    if state == "p":
        canvas.rect(left + 1, middle - 6, max(right - left - 2, 1), 12, "fill series-0")
    if state in "df":
        canvas.path([(left, middle), (right, middle)], "axis")
        canvas.circle(right - 3, middle, 3, "fill series-0")
    if state == "w":
        canvas.circle((left + right) / 2, middle, 1.2, "dot")


def traded() -> str:
    """Return the trade-off of the token budget, for the requests of the figure."""
    lines = [
        "| Prefill | TPOT of the decoding requests | Their max ITL | TTFT of the long prompt |",
        "|:--|--:|--:|--:|",
    ]
    for name, budget in (("unchunked", 0), *((f"token budget {b}", b) for b in (16, 8, 6, 4))):
        tpot, gap, ttft = figures_of(budget)
        lines.append(f"| {name} | {tpot:.1f} | {gap} | {ttft} |")
    return "\n".join(lines) + "\n"
