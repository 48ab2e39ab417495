"""The days' parts put together: six ways to serve the same requests, each with one idea more than the one before.

All of them have one loop, and where there are kernels all have the same fused model: what one is faster by than the one
before is its idea.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..paged.memory import PagedMemory, Storage
from ..paged.storage import PagedArrays
from ..prefix.memory import PrefixMemory
from ..quantized.parts import Quantized
from ..qwen3_cached.parts import DENSE
from ..serving.memory import DenseMemory, Memory
from ..serving.plans import chunked_prefill, whole_prompts
from ..serving.queue import FairQueue
from ..serving.ragged import RaggedModel
from ..serving.scheduler import Scheduler
from ..serving.step import Model
from ..speculative.draft import DraftModel
from ..speculative.drafts import Drafter
from ..speculative.ngram import NgramDrafter
from ..speculative.scheduling import Speculation
from .fused import NativePages, NativeSlots, RaggedFusedModel

Weights = dict[str, mx.array]


@dataclass(frozen=True)
class Limits:
    """What a scheduler may take."""

    slots: int = 8  # requests that run at most
    budget: int = 512  # tokens that a step reads at most, where prompts are cut
    memory: int = 1 << 30  # bytes of keys and values; a model that drafts takes as many again at most
    page: int = 16  # tokens in a page
    draft: tuple[ModelConfig, Weights] | None = None  # a small model that drafts; None looks drafts up in the text
    drafted: int = 4  # tokens that are drafted at a time
    fused: bool = True  # whether the kernels in C++ may be used, which must be built then
    int8: bool = False  # whether the fused model may round activations to 8 bits: less exact, and faster


class _Engine:
    """A model, and the memories that it reads: fused where the kernels are built and the matrices fit them."""

    def __init__(self, config: ModelConfig, weights: Weights, limits: Limits) -> None:
        self.config, self.limits = config, limits
        self.model = _fused(config, weights, limits.int8) if limits.fused else None
        self.fused = self.model is not None
        self.dtype = weights["model.norm.weight"].dtype
        if limits.int8 and not self.fused:
            raise ValueError("int8 needs kernels that are built, and matrices that are quantized to 4 bits")
        if self.model is None:
            packed = "model.embed_tokens.scales" in weights
            self.model = RaggedModel(config, weights, Quantized.like(config, weights) if packed else DENSE)
        number = mx.float32.size if self.fused else self.dtype.size
        of_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * number
        self.tokens = limits.memory // of_token  # that there is room for
        if self.tokens < limits.page:
            raise ValueError(
                f"{limits.memory} bytes hold {self.tokens} tokens of {of_token} bytes, but a page has {limits.page}"
            )

    def slots(self) -> Memory:
        """Room as long as the longest text for each request, and for as many as that allows: no pages."""
        if not self.fused:
            return DenseMemory(self.config.num_hidden_layers)
        longest = min(self.tokens, self.config.max_position_embeddings)
        return NativeSlots(self.config, min(self.limits.slots, self.tokens // longest), longest)

    def pages(self) -> Storage:
        """The same room, cut into pages. Arrays take it at once, so they have no more than all slots can fill."""
        config, page, count = self.config, self.limits.page, self.tokens // self.limits.page
        if self.fused:
            return NativePages(config, count, page)
        count = min(count, -(-self.limits.slots * config.max_position_embeddings // page))
        layers, kv_heads = config.num_hidden_layers, config.num_key_value_heads
        return PagedArrays(layers, count, page, kv_heads, config.head_dim, self.dtype)

    def scheduler(self, memory: Memory, **parts: Any) -> Scheduler:
        """The loop over that memory."""
        assert self.model
        return Scheduler(self.model, memory, slots=self.limits.slots, budget=self.limits.budget, **parts)


def _fused(config: ModelConfig, weights: Weights, int8: bool) -> Model | None:
    """The fused model; None where there are no kernels, or none for these matrices."""
    try:
        return RaggedFusedModel(config, weights, int8)
    except (ImportError, ValueError):
        return None


def static(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """Nobody is let in before all have ended who were let in together.

    Args:
        config: the model's measures.
        weights: by the names of a checkpoint.
        limits: what it may take. Each request takes room for the longest text that there may be.

    Raises:
        KeyError: a weight is missing.
        ValueError: the memory has not room for one page, or the model none for 8 bits.
    """
    engine = _Engine(config, weights, limits)
    return engine.scheduler(engine.slots(), plan=whole_prompts, static=True)


def continuous(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `static`, but before every step whoever there is room for is let in."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(engine.slots(), plan=whole_prompts)


def chunked(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `continuous`, with prompts in pieces and a queue that is fair."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(engine.slots(), plan=chunked_prefill, waiting=FairQueue())


def paged(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `chunked`, but a request takes pages as it grows: the same memory serves more of them at a time."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(PagedMemory(engine.pages()), plan=chunked_prefill, waiting=FairQueue())


def prefix(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `paged`, and what one request has read is there for the next that begins alike."""
    engine = _Engine(config, weights, limits)
    return engine.scheduler(PrefixMemory(engine.pages()), plan=chunked_prefill, waiting=FairQueue())


def speculative(config: ModelConfig, weights: Weights, limits: Limits) -> Scheduler:
    """As `prefix`, with several tokens of a request in a step, which a small model or the text itself has guessed."""
    engine = _Engine(config, weights, limits)
    guesses = Speculation(_drafter(limits), limits.drafted, chunked_prefill)
    memory = PrefixMemory(engine.pages())
    return engine.scheduler(memory, plan=guesses.plan, choose=guesses.choose, waiting=FairQueue())


def _drafter(limits: Limits) -> Drafter:
    if limits.draft is None:
        return NgramDrafter()
    small = _Engine(*limits.draft, limits)
    assert small.model
    return DraftModel(small.model, PagedMemory(small.pages()))


MODES: dict[str, Callable[[ModelConfig, Weights, Limits], Scheduler]] = {
    each.__name__: each for each in (static, continuous, chunked, paged, prefix, speculative)
}
