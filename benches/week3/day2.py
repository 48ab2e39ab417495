"""ITL of decoding requests during a long prefill: unchunked, and chunked with several token budgets."""

import time
from itertools import pairwise

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.serving.kv_cache import DenseKVCache
from tiny_llm.serving.latency import Latency, RequestTimes
from tiny_llm.serving.policies import chunked_prefill, unchunked_prefill
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm.serving.step import Policy
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Cell, Table

# What the book draws of the table.
CHART = ("bars", "", ("TPOT p95: times", "longest gap: times"))

WRITERS, TOKENS = 8, 32  # so many texts, of so many tokens each
PROMPT = 256
ROUNDS = 2  # of which the better counts: one disturbed step is a long gap
COMES = 4  # the long prompt comes before this step


def measure(quick: bool = False) -> Table:
    """The same texts beside no long prompt, one read whole, and one in pieces: each number as often as without one."""
    length, tokens = (40, 12) if quick else (PROMPT, TOKENS)
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = RaggedModel(config, checkpoint.weights)

    def served(plan: Policy, budget: int, prompt: int) -> tuple[float, float, float]:
        memory = DenseKVCache(config.num_hidden_layers)
        scheduler = Scheduler(model, memory, max_num_seqs=WRITERS + 1, max_num_batched_tokens=budget, policy=plan)
        return _served(scheduler, tokens, prompt)

    served(unchunked_prefill, 0, 0)  # which loads what is to be loaded
    plans: list[tuple[str, Policy, int, int]] = [
        ("no long prompt", unchunked_prefill, 0, 0),
        ("whole", unchunked_prefill, 0, length),
    ]
    plans += [(f"budget {n * WRITERS}", chunked_prefill, n * WRITERS, length) for n in (8, 4, 2)]
    rounds = [[served(plan, b, long) for _, plan, b, long in plans] for _ in range(1 if quick else ROUNDS)]
    (tpot, gap, _), *found = [tuple(map(min, zip(*same, strict=True))) for same in zip(*rounds, strict=True)]
    rows: list[tuple[Cell, ...]] = [("no long prompt", 1.0, 1.0, "none")]
    rows += [(name, a / tpot, b / gap, ttft) for (name, *_), (a, b, ttft) in zip(plans[1:], found, strict=True)]
    return Table(
        ("long prompt", "TPOT p95: times", "longest gap: times", "its TTFT: s"),
        tuple(rows),
        f"A prompt of {length} tokens, read whole, holds the {WRITERS} others up for {found[0][1] / gap:.0f} times "
        f"their longest gap without it; by the smallest budget that is {found[-1][1] / gap:.1f} times, "
        f"and their p95 TPOT {found[-1][0] / tpot:.1f} times.",
    )


def _served(scheduler: Scheduler, tokens: int, prompt: int) -> tuple[float, float, float]:
    """The p95 TPOT of those that write, their longest gap, and the long prompt's TTFT, which is 0 if there is none."""
    writers = [Request([258 + number] * 8, tokens) for number in range(WRITERS)]
    long, came = Request([300] * prompt, 1), 0.0
    for request in writers:
        scheduler.submit(request)
    times: dict[Request, list[float]] = {request: [] for request in (*writers, long)}
    number = 0
    while scheduler.running or scheduler.waiting:
        if number == COMES and prompt:
            came = time.perf_counter()
            scheduler.submit(long)
        step = scheduler.step()
        now, number = time.perf_counter(), number + 1
        for chunk, new in zip(step.chunks, step.new, strict=True):
            times[chunk.request] += [now] * len(new)
    latency = Latency()
    for request in writers:
        latency.add(RequestTimes(0.0, 0.0, times[request]))
    longest = max(later - earlier for request in writers for earlier, later in pairwise(times[request]))
    return latency.percentile(latency.tpot, 95), longest, (times[long][0] - came if prompt else 0.0)
