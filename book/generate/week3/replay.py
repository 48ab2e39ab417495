"""A load under many settings of the scheduler, for the widget of days 1 to 3 that replays it."""

import itertools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.html import element

# The step before which each request arrives, its prompt's tokens and those that it generates.
LOAD = ((0, 6, 10), (0, 4, 6), (0, 24, 4), (2, 3, 8), (4, 5, 12), (6, 30, 3), (8, 4, 6), (9, 3, 9))
POLICIES = ("static batching", "continuous, unchunked", "chunked prefill", "shared prefill")
SLOTS = (2, 4, 8)
FIXED = 8  # a step's overhead, in the time of as many tokens
PAGE = 4  # tokens

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
        found = {"states": letters_of(requests, steps, load), "tokens": tokens_of(steps)}
        if found not in kept:
            kept.append(found)
        numbers[",".join(map(str, setting))] = kept.index(found)
    data = {
        "names": names or [chr(65 + number) for number in range(len(load))],
        "comes": [comes for comes, _, _ in load],
        "settings": settings,
        "runs": numbers,
        "recorded": kept,
        "fixed": fixed,
    }
    return element("scheduler-replay", data, still)
