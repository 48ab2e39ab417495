"""Drafts by a small model, which has its own KV cache."""

from collections.abc import Sequence

from ..serving.kv_cache import KVCacheManager
from ..serving.request import Request
from ..serving.step import Model
from .drafter import Draft


class DraftModel:
    """A small model with the target's vocabulary that drafts its next tokens."""

    def __init__(self, model: Model, kv_cache: KVCacheManager) -> None:
        """Create a drafter with no requests.

        Args:
            model: computes the logits of chunks.
            kv_cache: the small model's own. It is given requests of our own, one for each that is drafted for, since
                what the target model has computed of a request is not what the small one has.
        """
        raise NotImplementedError("3.6.3 A draft model")

    def propose(self, requests: list[Request], counts: list[int]) -> list[Draft]:
        """Continue each request by as many tokens as its count: all requests in one batch, one token per model call.

        The small model computes what its KV cache lacks, in one chunk, and then each sampled token except the last;
        slots are reserved for these tokens and no others. The part of an earlier draft that the request has taken stays
        cached, and the rest is truncated; at least the request's last token is computed. Token number i of a draft is
        sampled, by `sample_from`, from the `probabilities` for the request's params, with one of the `uniforms` of its
        seed, for DRAFT, at position len(request.output) + i. The penalty also sees the draft tokens before it. A token
        of the request's `eos_ids` is the last of its draft, since the output would end with it.

        Args:
            requests: any number, even none, with at least one token each, all different. They are not modified.
            counts: how many tokens are wanted for each.

        Returns:
            A draft for each, with its probabilities, a row of V for each of its tokens. For a count of 0 the draft is
            empty, and what is cached for the request stays as it is. Where the KV cache has no capacity, the draft is
            empty as well. The model computes nothing for an empty draft.
        """
        raise NotImplementedError("3.6.3 A draft model")

    def retain(self, running: Sequence[Request]) -> None:
        """Release all requests but these, and their KV cache."""
        raise NotImplementedError("3.6.3 A draft model")
