"""Day 2's widget and figures: a long prompt among decoding requests, and a short prompt after long ones."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import mlx.core as mx
from book.generate.week3 import replay

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.parts import Parts

SENTENCE, TOKENS, WRITERS = 5, 12, 3  # tokens of "That is a blue dog", and of what follows it
LONG, WRITES, COMES = 24, 3, 4  # the long prompt, what it writes, and the step before which it comes
BUDGET = 8
SHORT = 4  # tokens of the prompt that comes after two long ones
LEFT, ROW = 40.0, 20.0  # pixels
LETTERS = "ABC"

# What the reader of the widget chooses.
BUDGETS = 4, 8, 16
SETTINGS = {"policy": ("unchunked prefill", "chunked prefill"), "budget": BUDGETS}
FIXED = 0, 4, 16  # of a step, in the time of as many tokens
LOAD = (*[(0, SENTENCE, TOKENS)] * WRITERS, (COMES, LONG, WRITES))


def generated_parts() -> Parts:
    """Return the widget, the table and the figure."""
    widget = replay.replay(SETTINGS, runs(), trace().rstrip(), LOAD, [*LETTERS, "long"], FIXED)
    return {"replay": widget, "traded": traded(), "short": short()}


def runs() -> dict[tuple[int, ...], replay.Run]:
    """Return the load's runs, by policy and budget."""
    policies = [replay.POLICIES.index(name) for name in ("continuous, unchunked", "chunked prefill")]
    return {
        (i, j): replay.run(policy, len(LOAD), budget, 64, LOAD)
        for i, policy in enumerate(policies)
        for j, budget in enumerate(BUDGETS)
    }


def served(policy: str, budget: int, requests: Sequence[tuple[int, int, int]]) -> tuple[list[Any], list[Any]]:
    """Run the scheduler with requests as (the step before which it comes, prompt tokens, output tokens)."""
    from tiny_llm_solution.serving import policies
    from tiny_llm_solution.serving.kv_cache import DenseKVCache
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    def any_token(chunks: Sequence[Any], memory: object) -> mx.array:
        return mx.zeros((sum(chunk.num_logits for chunk in chunks), 2))

    plan = getattr(policies, policy)
    scheduler = Scheduler(any_token, DenseKVCache(1), policy=plan, max_num_batched_tokens=budget)
    found, steps = [Request([1] * prompt, output) for _, prompt, output in requests], list[Any]()
    while scheduler.running or scheduler.waiting or not steps:
        for request, (comes, _, _) in zip(found, requests, strict=True):
            if comes == len(steps):
                scheduler.submit(request)
        steps.append(scheduler.step())
    return found, steps


def run_of(budget: int) -> tuple[list[Any], list[Any]]:
    """Run three requests and a long prompt, chunked by the budget or, if it is 0, unchunked."""
    return served("chunked_prefill" if budget else "unchunked_prefill", budget or 1, LOAD)


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


def ttft_of(requests: Sequence[Any], steps: Sequence[Any], comes: Sequence[int]) -> list[int]:
    """Return each request's TTFT in computed tokens; it comes before the step of its number."""
    clock, found = read_by(steps), dict[int, int]()
    for step, now in zip(steps, clock[1:], strict=True):
        for chunk in step.chunks:
            if chunk.num_logits:
                found.setdefault(chunk.request, now)
    return [found[request] - clock[at] for request, at in zip(requests, comes, strict=True)]


def _timelines(
    canvas: Canvas, names: Sequence[str], runs: dict[str, tuple[list[Any], list[Any]]], comes: dict[int, int]
) -> None:
    """Draw runs, with a row for each request; a step is as wide as its number of tokens.

    `comes` holds the step before which a request came, by its number, if that is not the first.
    """
    from tiny_llm_solution.serving.timeline import timeline

    right = canvas.width - 6
    level, scale = 0.0, (right - LEFT) / max(read_by(steps)[-1] for _, steps in runs.values())
    for heading, (requests, steps) in runs.items():
        canvas.text(0, level + FONT, heading, "strong")
        level += FONT + 10
        clock = [LEFT + scale * read for read in read_by(steps)]
        rows = timeline(steps, {requests[number]: step for number, step in comes.items()})
        for name, row in zip(names, rows, strict=True):
            canvas.text(LEFT - 8, level + 13, name, "", "end")
            for state, left, right in zip(row.states, clock, clock[1:], strict=False):
                _mark(canvas, state, left, right, level)
            level += ROW
        for x in clock:
            canvas.path([(x, level), (x, level + 5)], "axis")
        level += SMALL + 12
    canvas.text(right, level - 2, "tokens processed", "small", "end")


def trace() -> str:
    """Draw the long prompt among decoding requests, unchunked and chunked."""
    runs = {"unchunked prefill": run_of(0), f"chunked prefill, token budget {BUDGET}": run_of(BUDGET)}
    canvas = at_both_widths(lambda canvas: _timelines(canvas, [*LETTERS, "long"], runs, {WRITERS: COMES}))
    a, b = figures_of(0), figures_of(BUDGET)
    about = (
        f"Two timelines of the same four requests. Unchunked, one step processes {LONG + WRITERS} tokens, and the "
        f"three decoding requests get no token until it ends. With a token budget of {BUDGET}, no step processes more "
        f"than {BUDGET} tokens."
    )
    caption = (
        f"Three requests are decoding when a prompt of {LONG} tokens arrives. A bar is a prefill, a dot at the end of "
        f"a step is a generated token, and the width of a step is the number of tokens that it processes. Measured in "
        f"processed tokens, the maximum inter-token latency (ITL) is {a[1]} in the first run and {b[1]} in the second. "
        f"The TTFT of the long prompt is {a[2]} in the first run and {b[2]} in the second."
    )
    return canvas.figure(
        "trace-3-2", "A long prompt among three decoding requests, unchunked and chunked", about, caption
    )


def short() -> str:
    """Draw a short prompt that comes after two long ones, under both policies."""
    comes = 0, 0, 1
    requests = [(step, length, WRITES) for step, length in zip(comes, (LONG, LONG, SHORT), strict=True)]
    runs = {policy: served(policy, BUDGET, requests) for policy in ("chunked_prefill", "shared_prefill")}
    canvas = at_both_widths(lambda canvas: _timelines(canvas, LETTERS, runs, {2: comes[2]}))
    (a, b, c), (d, e, f) = (ttft_of(*run, comes) for run in runs.values())
    about = (
        "Two timelines of the same three requests. With chunked_prefill, C is prefilled after both long prompts. With "
        "shared_prefill, C is prefilled in the step after it arrives, beside a chunk of A."
    )
    caption = (
        f"A and B, two prompts of {LONG} tokens, are waiting when C arrives with a prompt of {SHORT} tokens. The token "
        f"budget is {BUDGET}. Measured in processed tokens, the TTFT of A, B and C is {a}, {b} and {c} with "
        f"<code>chunked_prefill</code>, and {d}, {e} and {f} with <code>shared_prefill</code>. Each counts from the "
        f"request's arrival: C arrives when {BUDGET} tokens have been processed."
    )
    return canvas.figure("short-3-2", "A short prompt after two long ones, under two policies", about, caption)


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
        "| Prefill | Largest TPOT of A, B and C | Max ITL of A, B and C | TTFT of the long prompt |",
        "|:--|--:|--:|--:|",
    ]
    for name, budget in (("unchunked", 0), *((f"token budget {b}", b) for b in (16, 8, 6, 4))):
        tpot, gap, ttft = figures_of(budget)
        lines.append(f"| {name} | {tpot:.1f} | {gap} | {ttft} |")
    return "\n".join(lines) + "\n"
