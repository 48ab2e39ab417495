"""A load under many settings of the scheduler, for the widget of days 1 to 3 that replays it, and for drawings."""

import itertools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.drawing import Canvas
from tiny_llm_course.dev.book.drawing.canvas import SMALL, width_of
from tiny_llm_course.dev.book.html import element

# The step before which each request arrives, its prompt's tokens and those that it generates.
LOAD = ((0, 6, 10), (0, 4, 6), (0, 24, 4), (2, 3, 8), (4, 5, 12), (6, 30, 3), (8, 4, 6), (9, 3, 9))
POLICIES = ("static batching", "continuous, unchunked", "chunked prefill", "shared prefill")
SLOTS = (2, 4, 8)
FIXED = 8  # a step's overhead, in the time of as many tokens
PAGE = 4  # tokens
LEFT, ROW = 50.0, 20.0  # pixels of a drawing

Load = tuple[tuple[int, int, int], ...]
Run = tuple[list[Any], list[Any]]  # the requests, and the results of all steps


def run(policy: int, slots: int, budget: int, pages: int, load: Load = LOAD) -> Run:
    """Serve the load by the policy with this index until all requests are finished."""
    from tiny_llm_solution.paged.kv_cache import PagedKVCache
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.serving import policies
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    def any_token(chunks: Any, memory: Any) -> mx.array:
        return mx.zeros((sum(chunk.num_logits for chunk in chunks), 2))

    plans = (policies.unchunked_prefill, policies.unchunked_prefill, policies.chunked_prefill, policies.shared_prefill)
    scheduler = Scheduler(
        any_token,
        PagedKVCache(PagedArrays(1, pages, PAGE, 1, 1)),
        max_num_seqs=slots,
        max_num_batched_tokens=budget,
        policy=plans[policy],
        static=policy == 0,
    )
    requests, steps = [Request([1] * prompt, output) for _, prompt, output in load], list[Any]()
    while len(steps) <= load[-1][0] or scheduler.running or scheduler.waiting:
        for request, (comes, _, _) in zip(requests, load, strict=True):
            if comes == len(steps):
                scheduler.submit(request)
        steps.append(scheduler.step())
    return requests, steps


def letters_of(requests: list[Any], steps: list[Any], load: Load = LOAD) -> list[str]:
    """Return each request's states as letters of the timeline; `P` is a prefill that yields a token."""
    from tiny_llm_solution.serving.timeline import timeline as rows_of

    arrivals = {request: comes for request, (comes, _, _) in zip(requests, load, strict=True)}
    found = [list(row.states) for row in rows_of(steps, arrivals)]
    for number, step in enumerate(steps):
        for chunk, new in zip(step.chunks, step.new, strict=True):
            row = found[requests.index(chunk.request)]
            if new and row[number] == "p":
                row[number] = "P"
    return ["".join(row) for row in found]


def stays_of(requests: list[Any], steps: list[Any]) -> list[list[list[int]]]:
    """Return each request's stays in the batch: a slot, the first step and the last one."""
    held, found = dict[Any, list[int]](), [list[list[int]]() for _ in requests]
    for number, step in enumerate(steps):
        for request in step.admitted:
            taken = {slot for slot, _, _ in held.values()}
            held[request] = [next(n for n in itertools.count() if n not in taken), number, number]
            found[requests.index(request)].append(held[request])
        for stay in held.values():
            stay[2] = number
        for request in (*step.finished, *step.preempted):
            del held[request]
    return found


def draw_lanes(canvas: Canvas, run: Run, load: Load, slots: int, level: float, across: float) -> float:
    """Draw a row for each slot and one for the queue, and return their lower edge; a step is `across` pixels wide.

    If there is no space for a name in each step, a stay is one block with marks, and prefills look like decode steps.
    """
    (requests, steps), wide = run, across > 16
    rows, stays = letters_of(requests, steps, load), stays_of(requests, steps)
    held = {
        (slot, step): i for i, own in enumerate(stays) for slot, *ends in own for step in range(ends[0], ends[1] + 1)
    }
    for slot in range(slots):
        y = level + slot * ROW
        canvas.text(LEFT - 6, y + 14, f"slot {slot + 1}", "small", "end")
        holders = [(held.get((slot, step)), wide and step) for step in range(len(steps))]
        for (i, _), same in itertools.groupby(range(len(steps)), holders.__getitem__):
            step, *others = same
            x, width = LEFT + step * across, across * (1 + len(others))
            filled = wide and i is not None and step == next(n for n, state in enumerate(rows[i]) if state in "pPf")
            looks = "grid" if i is None else "fill series-0" if filled else "hollow series-0"
            canvas.rect(x + 1, y + 2, width - 2, ROW - 4, looks, 2)
            high, line = (ROW - 4, "grid") if i is None else (3, "axis")
            marks = [(LEFT + n * across, y + ROW - 2 - up) for n in others for up in (0, high, 0)]
            if marks:
                canvas.path(marks, line)
            if i is not None:
                looks = "small inside" if filled else "small"
                canvas.text(x + width / 2, y + 14, names_of(load)[i], looks, "middle")
    level += slots * ROW
    canvas.text(LEFT - 6, level + 14, "queue", "small", "end")
    queues = [
        "".join(name for name, row in zip(names_of(load), rows, strict=True) if row[step] == "w")
        for step in range(len(steps))
    ]
    for queue, same in itertools.groupby(range(len(steps)), queues.__getitem__):
        first, *others = same
        width = across * (1 + len(others))
        if queue:
            canvas.rect(LEFT + first * across + 1, level + 2, width - 2, ROW - 4, "band", 2)
        words = next((w for w in (queue, str(len(queue))) if width_of(w, SMALL) < width - 3), "")
        if queue and words:
            canvas.text(LEFT + first * across + width / 2, level + 14, words, "small", "middle")
    return level + ROW


def names_of(load: Load) -> list[str]:
    """Return A, B, C and so on."""
    return [chr(65 + number) for number in range(len(load))]


def tokens_of(steps: list[Any]) -> list[int]:
    """Return how many tokens each step computes."""
    return [sum(len(chunk.tokens) for chunk in step.chunks) for step in steps]


def max_itl(steps: list[Any]) -> int:
    """Return the longest time from one token of a request to its next."""
    clock = itertools.accumulate(count + FIXED for count in tokens_of(steps))
    times: dict[Any, list[int]] = {}
    for now, step in zip(clock, steps, strict=True):
        for chunk, new in zip(step.chunks, step.new, strict=True):
            times.setdefault(chunk.request, []).extend([now] * len(new))
    return max(after - before for each in times.values() for before, after in itertools.pairwise(each))


def replay(
    settings: dict[str, tuple[Any, ...]],
    runs: dict[tuple[int, ...], Run],
    still: str,
    load: Load = LOAD,
    names: Sequence[str] = (),
    fixed: int | tuple[int, ...] = FIXED,
) -> str:
    """Return the widget.

    Args:
        settings: the reader's choices by name, the policies first.
        runs: the run of each combination of choices, by their indices.
        still: what is shown without JavaScript.
        load: of the runs.
        names: of the requests; A, B, C and so on if there are none.
        fixed: a step's overhead, or the reader's choices of it.
    """
    kept, numbers = list[dict[str, Any]](), {}
    for setting in itertools.product(*(range(len(values)) for values in settings.values())):
        requests, steps = runs[setting]
        found = {
            "states": letters_of(requests, steps, load),
            "stays": stays_of(requests, steps),
            "tokens": tokens_of(steps),
        }
        if found not in kept:
            kept.append(found)
        numbers[",".join(map(str, setting))] = kept.index(found)
    data = {
        "names": names or names_of(load),
        "comes": [comes for comes, _, _ in load],
        "settings": settings,
        "runs": numbers,
        "recorded": kept,
        "fixed": fixed,
    }
    return element("scheduler-replay", data, still)
