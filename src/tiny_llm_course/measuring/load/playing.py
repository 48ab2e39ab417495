"""A load played to a scheduler in this process: on the clock, or step by step."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from ...engine.serving import ServingEngine
from .outcome import Answer, Outcome
from .workload import Arrival


def play(serving: ServingEngine, load: Sequence[Arrival]) -> Outcome:
    """Let requests come when they do, and step while anybody is there."""
    scheduler, coming, preemptions = serving.scheduler, deque(load), 0
    answers: dict[Any, Answer] = {}
    with serving.learners_code():
        request = serving.part("serving.request", "Request")
        begun = time.perf_counter()
        while coming or scheduler.running or len(scheduler.waiting):
            now = time.perf_counter() - begun
            while coming and coming[0].at <= now:
                arrival = coming.popleft()
                sent = request(list(arrival.prompt), arrival.max_tokens)
                scheduler.submit(sent)
                answers[sent] = Answer(arrival.at)
            if not (scheduler.running or len(scheduler.waiting)):
                time.sleep(max(0.0, coming[0].at - now))
                continue
            step = scheduler.step()
            now = time.perf_counter() - begun
            preemptions += len(step.preempted)
            for chunk, new in zip(step.chunks, step.new, strict=True):
                answers[chunk.request].tokens += [now] * len(new)
    memory = scheduler.memory
    hits = memory.hit / max(memory.asked, 1) if hasattr(memory, "asked") else None
    return Outcome(list(answers.values()), preemptions, hits)


def replay(serving: ServingEngine, load: Sequence[Arrival]) -> tuple[list[Any], dict[Any, int]]:
    """The steps of a load whose times are counted in steps, and before which of them each request came.

    What the scheduler decides depends on nothing else.
    """
    scheduler, coming = serving.scheduler, deque(load)
    steps: list[Any] = []
    came: dict[Any, int] = {}
    with serving.learners_code():
        request = serving.part("serving.request", "Request")
        while coming or scheduler.running or len(scheduler.waiting):
            while coming and coming[0].at <= len(steps):
                arrival = coming.popleft()
                scheduler.submit(sent := request(list(arrival.prompt), arrival.max_tokens))
                came[sent] = len(steps)
            steps.append(scheduler.step())
    return steps, came
