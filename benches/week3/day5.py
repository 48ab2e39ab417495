"""TTFT with the whole prompt prefilled, and with a cached prefix."""

from collections.abc import Callable
from itertools import count

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.paged.kv_cache import PagedKVCache
from tiny_llm.paged.storage import PagedArrays
from tiny_llm.prefix.kv_cache import PrefixKVCache
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Request
from tiny_llm.serving.scheduler import Scheduler
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("lines", "TTFT in ms, speed-up", ("no cache: ms", "prefix cache: ms", "speed-up"))

PAGE, PAGES = 16, 600
OWN = 16  # tokens of a request after the shared prefix


def measure(quick: bool = False) -> Table:
    """Measure the TTFT of requests served one at a time by the embedded model."""
    lengths = [32, 64] if quick else [64, 256, 512]
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = RaggedModel(config, checkpoint.weights)
    heads, dims = config.num_key_value_heads, config.head_dim
    rows = []
    for shared in lengths:
        arrays = [PagedArrays(config.num_hidden_layers, PAGES, PAGE, heads, dims) for _ in range(2)]
        plain, remembering = PagedKVCache(arrays[0]), PrefixKVCache(arrays[1])
        with_cache = _first_token(model, remembering, shared)
        whole, rest = seconds(_first_token(model, plain, shared), with_cache)
        asked, hit = remembering.queried_tokens, remembering.hit_tokens
        with_cache()
        rate = (remembering.hit_tokens - hit) / (remembering.queried_tokens - asked)
        rows.append((shared, shared + OWN, 1e3 * whole, 1e3 * rest, whole / rest, 100 * rate))
    return Table(
        ("shared tokens", "prompt tokens", "no cache: ms", "prefix cache: ms", "speed-up", "hit rate: %"),
        tuple(rows),
        f"For a prompt of {lengths[-1] + OWN} tokens, {lengths[-1]} of them shared, the prefix cache reduces TTFT by a "
        f"factor of {rows[-1][4]:.0f}; with {lengths[0]} shared tokens, the factor is {rows[0][4]:.1f}.",
    )


def _first_token(model: RaggedModel, memory: PagedKVCache, shared: int) -> Callable[[], object]:
    """Return a program that serves a request with the shared prefix and a new suffix up to its first token."""
    numbers = count(300)

    def run() -> None:
        scheduler = Scheduler(model, memory)
        scheduler.submit(Request([258] * shared + [next(numbers)] * OWN, 1))
        scheduler.step()

    return run
