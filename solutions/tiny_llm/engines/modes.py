"""The serving modes: each adds one idea to the one before, except the last two, `int8` and `metal`.

All use the same scheduler, and the same fused model where its kernels are built: the speed-up of one mode over the one
before is due to its idea.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..metal.model import MetalParts
from ..paged.kv_cache import PagedKVCache, Storage
from ..paged.metal import MetalPages
from ..paged.storage import PagedArrays
from ..prefix.kv_cache import PrefixKVCache
from ..quantized.parts import Quantized
from ..qwen3_cached.parts import DENSE, Dense
from ..serving.kv_cache import DenseKVCache, KVCacheManager
from ..serving.policies import shared_prefill, unchunked_prefill
from ..serving.queue import FairQueue
from ..serving.ragged import RaggedModel
from ..serving.scheduler import Scheduler
from ..serving.step import Model
from ..speculative.draft_model import DraftModel
from ..speculative.drafter import Drafter
from ..speculative.ngram import NgramDrafter
from ..speculative.scheduling import Speculation
from .fused import NativePages, NativeSlots, RaggedFusedModel

Weights = dict[str, mx.array]


@dataclass(frozen=True)
class Limits:
    """The resources and options of a scheduler."""

    max_num_seqs: int = 8  # maximum number of running requests
    max_num_batched_tokens: int = 64  # token budget of a step, if prefill is chunked
    kv_cache_bytes: int = 1 << 30  # for keys and values; a draft model takes at most as many again
    page_size: int = 16  # tokens per page
    draft_model: tuple[ModelConfig, Weights] | None = None  # None drafts by prompt lookup
    num_speculative_tokens: int = 4  # draft tokens per request and step
    fused: bool = True  # whether to use the C++ kernels if they are built
    int8: bool = False  # whether the fused model may round activations to 8 bits: less exact, and faster


class _Engine:
    """A model and the KV caches it can use: fused if the kernels are built and support the matrices."""

    def __init__(self, config: ModelConfig, weights: Weights, limits: Limits, parts: Dense | None = None) -> None:
        self.config, self.limits = config, limits
        self.model = _fused(config, weights, limits.int8) if limits.fused and parts is None else None
        self.fused = self.model is not None
        self.dtype = weights["model.norm.weight"].dtype
        if limits.int8 and not self.fused:
            raise ValueError("int8 needs kernels that are built, and matrices that are quantized to 4 bits")
        if self.model is None:
            packed = "model.embed_tokens.scales" in weights
            self.model = RaggedModel(config, weights, parts or (Quantized.like(config, weights) if packed else DENSE))
        number = mx.float32.size if self.fused else self.dtype.size
        of_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * number
        self.tokens = limits.kv_cache_bytes // of_token  # the capacity
        if self.tokens < limits.page_size:
            raise ValueError(
                f"{limits.kv_cache_bytes} bytes hold {self.tokens} tokens of {of_token} bytes, "
                f"but a page has {limits.page_size}"
            )

    def slots(self) -> KVCacheManager:
        """Return a KV cache with one slot per request, as long as the longest sequence, and as many as fit."""
        if not self.fused:
            return DenseKVCache(self.config.num_hidden_layers)
        longest = min(self.tokens, self.config.max_position_embeddings)
        return NativeSlots(self.config, min(self.limits.max_num_seqs, self.tokens // longest), longest)

    def pages(self, arrays: type[PagedArrays] = PagedArrays) -> Storage:
        """Return page storage of the same capacity. Arrays, allocated at once, get no more pages than can be used."""
        config, page_size, count = self.config, self.limits.page_size, self.tokens // self.limits.page_size
        if self.fused:
            return NativePages(config, count, page_size)
        count = min(count, -(-self.limits.max_num_seqs * config.max_position_embeddings // page_size))
        layers, kv_heads = config.num_hidden_layers, config.num_key_value_heads
        return arrays(layers, count, page_size, kv_heads, config.head_dim, self.dtype)

    def scheduler(self, kv_cache: KVCacheManager, **parts: Any) -> Scheduler:
        """Return a scheduler over a KV cache."""
        assert self.model
        limits = self.limits
        return Scheduler(
            self.model,
            kv_cache,
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            **parts,
        )


def _fused(config: ModelConfig, weights: Weights, int8: bool) -> Model | None:
    """Return the fused model; None if its kernels are not built, or do not support these matrices."""
    try:
        return RaggedFusedModel(config, weights, int8)
    except (ImportError, ValueError):
        return None


def static(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """Return a scheduler with static batching: no request is admitted before all of the last batch have ended.

    Args:
        config: of the model.
        weights: by their names in a checkpoint.
        limits: resources and options. Each request takes a slot for the longest sequence.

    Raises:
        KeyError: a weight is missing.
        ValueError: kv_cache_bytes do not hold one page, or the model does not support int8.
    """
    engine = _Engine(config, weights, limits)
    return engine.scheduler(engine.slots(), policy=unchunked_prefill, static=True)


def continuous(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `static`, with continuous batching: requests are admitted before every step."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(engine.slots(), policy=unchunked_prefill)


def chunked(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `continuous`, with chunked prefill and a fair queue."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(engine.slots(), policy=shared_prefill, queue=FairQueue())


def paged(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `chunked`, with a paged KV cache: a request takes pages as it grows, so more requests fit at a time."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(PagedKVCache(engine.pages()), policy=shared_prefill, queue=FairQueue())


def metal(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `paged`, with quantized products and paged attention by the Metal kernels."""
    engine = _Engine(config, weights, limits, MetalParts.like(config, weights))
    kv_cache = PagedKVCache(engine.pages(MetalPages))
    return engine.scheduler(kv_cache, policy=shared_prefill, queue=FairQueue())


def prefix(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `paged`, with prefix caching."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(PrefixKVCache(engine.pages()), policy=shared_prefill, queue=FairQueue())


def speculative(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `prefix`, with speculative decoding: draft tokens come from a small model or from prompt lookup."""
    engine = _Engine(config, weights, limits)
    speculation = Speculation(_drafter(limits), limits.num_speculative_tokens, shared_prefill)
    kv_cache = PrefixKVCache(engine.pages())
    return engine.scheduler(kv_cache, policy=speculation.plan, sampler=speculation.sample, queue=FairQueue())


def int8(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `prefix`, with activations rounded to 8 bits."""
    return prefix(config, weights, replace(limits, int8=True))


def _drafter(limits: Limits) -> Drafter:
    if limits.draft_model is None:
        return NgramDrafter()
    small = _Engine(*limits.draft_model, limits)
    assert small.model
    return DraftModel(small.model, PagedKVCache(small.pages()))


MODES: dict[str, Callable[[ModelConfig, Weights, Limits], Scheduler]] = {
    each.__name__: each for each in (static, continuous, chunked, paged, prefix, speculative, int8, metal)
}
