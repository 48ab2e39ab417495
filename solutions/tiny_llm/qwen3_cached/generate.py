"""Generation with a KV cache: one prefill of the prompt, then one decode step per token."""

from collections.abc import Collection, Iterator

import mlx.core as mx

from ..generate import Sampler, generate_tokens, greedy
from .model import Qwen3CachedModel


def generate_cached(
    model: Qwen3CachedModel,
    prompt: list[int],
    max_tokens: int,
    *,
    eos_ids: Collection[int] = (),
    context_length: int | None = None,
    sampler: Sampler = greedy,
) -> Iterator[int]:
    """Continue a prompt as `generate_tokens` does, computing each token once.

    Args:
        model: has `new_caches`, whose caches each have an `offset`, and returns logits for tokens and caches. The first
            call gets the whole prompt, 1 x L; each later one the last sampled token, 1 x 1. All get the same caches;
            none requests `all_positions`.
        prompt, max_tokens, eos_ids, context_length, sampler: as in `generate_tokens`. An eos_id in the prompt ends
            nothing.

    Raises:
        ValueError: as `generate_tokens`.
    """
    caches = model.new_caches()

    def read(tokens: mx.array) -> mx.array:
        return model(tokens[:, caches[0].offset :], caches)  # the caches hold the earlier ones

    return generate_tokens(read, prompt, max_tokens, eos_ids=eos_ids, context_length=context_length, sampler=sampler)
