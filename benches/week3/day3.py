"""Requests that fit into the same memory, reserved or paged, and what pages cost one request."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from tiny_llm.config import ModelConfig
from tiny_llm.paged.kv_cache import PagedKVCache
from tiny_llm.paged.sizes import PageSizes
from tiny_llm.paged.storage import PagedArrays
from tiny_llm.serving.kv_cache import DenseKVCache, KVCacheManager
from tiny_llm.serving.ragged import RaggedModel
from tiny_llm.serving.request import Chunk, Request
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("requests", "wasted: %", "ratio to dense cache"))

RESERVED = 8  # arrays with capacity for the longest sequence: all layouts get as many bytes
STEPS = 8  # per run, so that it is long enough to time


def measure(quick: bool = False) -> Table:
    """Count the requests of 20 to 600 tokens that fit, and time a decode step of the embedded model after 300."""
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model, longest, length = RaggedModel(config, checkpoint.weights), config.max_position_embeddings, 300
    pages = [16] if quick else [256, 64, 16, 4, 1]
    lengths = np.random.default_rng(0).integers(20, 601, 1000).tolist()
    kinds = [_reserved(config, longest, lengths), *(_in_pages(config, longest, page, lengths) for page in pages)]
    memories: list[KVCacheManager] = [
        DenseKVCache(config.num_hidden_layers),
        *(_paged(config, page, length) for page in pages),
    ]
    times = [each / STEPS for each in seconds(*(_steps(model, memory, length) for memory in memories))]
    names = [f"reserved, {longest:,} slots", *(f"pages of {page}" for page in pages)]
    rows = tuple(
        (*row, 1e3 * t, t / times[0])
        for row, t in zip(zip(names, *zip(*kinds, strict=True), strict=True), times, strict=True)
    )
    dense, sixteen = rows[0], next(row for row in rows if row[0] == "pages of 16")
    return Table(
        ("layout", "requests", "wasted: %", "decode step: ms", "ratio to dense cache"),
        rows,
        f"The memory of {dense[1]} reserved arrays fits {sixteen[1]} requests in pages of 16, "
        f"{sixteen[1] / dense[1]:.1f} times as many; a decode step of one request takes {sixteen[4]:.2f} times as "
        "long.",
    )


def _reserved(config: ModelConfig, longest: int, lengths: list[int]) -> tuple[int, float]:
    """Return how many requests fit into reserved arrays, and the wasted share in percent."""
    sizes = PageSizes(config, 1)
    here = lengths[:RESERVED]
    return len(here), 100 * sizes.reserved_waste(here, longest) / (len(here) * longest * sizes.token_bytes)


def _in_pages(config: ModelConfig, longest: int, page: int, lengths: list[int]) -> tuple[int, float]:
    """Return the same for pages of `page` slots."""
    sizes = PageSizes(config, page)
    free, here = sizes.pages_within(RESERVED * longest * sizes.token_bytes), list[int]()
    for length in lengths:
        free -= -(-length // page)
        if free < 0:
            break
        here.append(length)
    waste = sizes.waste(here)
    return len(here), 100 * waste / (waste + sum(here) * sizes.token_bytes)


def _paged(config: ModelConfig, page: int, length: int) -> PagedKVCache:
    """Return a paged cache for one request of twice `length` tokens."""
    pages = 2 * -(-length // page)
    heads, dims = config.num_key_value_heads, config.head_dim
    return PagedKVCache(PagedArrays(config.num_hidden_layers, pages, page, heads, dims, mx.float32))


def _steps(model: RaggedModel, memory: KVCacheManager, length: int) -> Callable[[], object]:
    """Return STEPS decode steps after `length` tokens, followed by a rollback."""
    request = Request([258] * length, STEPS)
    memory.admit(request)
    memory.reserve(request, length)
    mx.eval(model([Chunk(request, 0, request.prompt, 1)], memory))
    request.num_computed_tokens = length

    def run() -> None:
        for position in range(length, length + STEPS):
            memory.reserve(request, position + 1 - length)
            mx.eval(model([Chunk(request, position, [258], 1)], memory))
        memory.truncate(request, length)

    return run
