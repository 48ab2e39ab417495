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
CHART = ("bars", "", ("p95 TPOT: ratio", "max ITL: ratio"))

DECODING, TOKENS = 8, 32  # decoding requests, and output tokens of each
PROMPT = 256
ROUNDS = 2  # the better one counts: a single disturbed step is a long ITL
ARRIVAL = 4  # the long prompt arrives before this step


def measure(quick: bool = False) -> Table:
    """Measure decoding without a long prefill, with an unchunked one and with chunked ones, as ratios to the first."""
    length, tokens = (40, 12) if quick else (PROMPT, TOKENS)
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = RaggedModel(config, checkpoint.weights)

    def served(plan: Policy, budget: int, prompt: int) -> tuple[float, float, float]:
        memory = DenseKVCache(config.num_hidden_layers)
        scheduler = Scheduler(model, memory, max_num_seqs=DECODING + 1, max_num_batched_tokens=budget, policy=plan)
        return _served(scheduler, tokens, prompt)

    served(unchunked_prefill, 0, 0)  # warm-up
    plans: list[tuple[str, Policy, int, int]] = [
        ("none", unchunked_prefill, 0, 0),
        ("unchunked", unchunked_prefill, 0, length),
    ]
    plans += [(f"budget {n * DECODING}", chunked_prefill, n * DECODING, length) for n in (8, 4, 2)]
    rounds = [[served(plan, b, long) for _, plan, b, long in plans] for _ in range(1 if quick else ROUNDS)]
    (tpot, itl, _), *found = [tuple(map(min, zip(*same, strict=True))) for same in zip(*rounds, strict=True)]
    rows: list[tuple[Cell, ...]] = [("none", 1.0, 1.0, "-")]
    rows += [(name, a / tpot, b / itl, ttft) for (name, *_), (a, b, ttft) in zip(plans[1:], found, strict=True)]
    return Table(
        ("long prefill", "p95 TPOT: ratio", "max ITL: ratio", "TTFT: s"),
        tuple(rows),
        f"An unchunked prefill of {length} tokens multiplies the max ITL of {DECODING} decoding requests by "
        f"{found[0][1] / itl:.0f}; chunked with the smallest budget, it multiplies max ITL by "
        f"{found[-1][1] / itl:.1f} and p95 TPOT by {found[-1][0] / tpot:.1f}.",
    )


def _served(scheduler: Scheduler, tokens: int, prompt: int) -> tuple[float, float, float]:
    """Return the decoding requests' p95 TPOT and max ITL, and the long prompt's TTFT, or 0 without one."""
    decoding = [Request([258 + number] * 8, tokens) for number in range(DECODING)]
    long, arrived = Request([300] * prompt, 1), 0.0
    for request in decoding:
        scheduler.submit(request)
    times: dict[Request, list[float]] = {request: [] for request in (*decoding, long)}
    number = 0
    while scheduler.running or scheduler.waiting:
        if number == ARRIVAL and prompt:
            arrived = time.perf_counter()
            scheduler.submit(long)
        step = scheduler.step()
        now, number = time.perf_counter(), number + 1
        for chunk, new in zip(step.chunks, step.new, strict=True):
            times[chunk.request] += [now] * len(new)
    latency = Latency()
    for request in decoding:
        latency.add(RequestTimes(0.0, 0.0, times[request]))
    longest = max(later - earlier for request in decoding for earlier, later in pairwise(times[request]))
    return latency.percentile(latency.tpot, 95), longest, (times[long][0] - arrived if prompt else 0.0)
