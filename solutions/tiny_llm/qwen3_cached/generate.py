"""Generation with a cache: the prompt is read once, and then one token for each that is written."""

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
    """Continue a prompt as `generate_tokens` does, and let the model read every token once.

    Args:
        model: gives new caches, each with an `offset`, and logits for tokens and caches. The first call of it gets
            the whole prompt, 1 x L, every later one the token that was chosen last, 1 x 1; all get the same caches.
        prompt, max_tokens, eos_ids, context_length, sampler: as `generate_tokens` takes them.

    Raises:
        ValueError: as `generate_tokens`.
    """
    caches = model.new_caches()

    def read(tokens: mx.array) -> mx.array:
        return model(tokens[:, caches[0].offset :], caches)  # the others are in the caches

    return generate_tokens(read, prompt, max_tokens, eos_ids=eos_ids, context_length=context_length, sampler=sampler)
