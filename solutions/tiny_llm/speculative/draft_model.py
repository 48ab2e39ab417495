"""Drafts by a small model, which has its own KV cache."""

from collections.abc import Sequence

import mlx.core as mx

from ..serving.kv_cache import KVCacheManager
from ..serving.request import Request, next_chunk
from ..serving.step import Model
from .drafter import Draft
from .probabilities import DRAFT, probabilities, sample_from, uniforms


class DraftModel:
    """A small model with the target's vocabulary that drafts its next tokens."""

    def __init__(self, model: Model, kv_cache: KVCacheManager) -> None:
        """Create a drafter with no requests.

        Args:
            model: computes the logits of chunks.
            kv_cache: the small model's own. It is given requests of our own, one for each that is drafted for, since
                what the target model has computed of a request is not what the small one has.
        """
        self.model, self.kv_cache = model, kv_cache
        self._ours: dict[Request, Request] = {}

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
        ours = [self._caught_up(request, count) for request, count in zip(requests, counts, strict=True)]
        drawn: list[list[int]] = [[] for _ in requests]
        rows: list[list[mx.array]] = [[] for _ in requests]
        ended = [own is None for own in ours]
        for number in range(max(counts, default=0)):
            writing = [i for i, count in enumerate(counts) if number < count and not ended[i]]
            if not writing:
                break
            chunks = [next_chunk(own, own.num_uncomputed_tokens) for i in writing if (own := ours[i])]
            logits = self.model(chunks, self.kv_cache)  # R x V
            params = [requests[i].params for i in writing]
            found = probabilities(logits, params, [chunk.request.prompt for chunk in chunks])
            for i, chunk, row in zip(writing, chunks, found, strict=True):
                (draw,) = uniforms(requests[i].params.seed, len(requests[i].output) + number, 1, DRAFT)
                drawn[i].append(sample_from(row, draw))
                rows[i].append(row)
                ended[i] = drawn[i][-1] in requests[i].eos_ids
                chunk.request.num_computed_tokens = chunk.end
                chunk.request.prompt.append(drawn[i][-1])
        return [Draft(tokens, mx.stack(own)) if tokens else Draft() for tokens, own in zip(drawn, rows, strict=True)]

    def retain(self, running: Sequence[Request]) -> None:
        """Release all requests but these, and their KV cache."""
        for request in [each for each in self._ours if each not in running]:
            self.kv_cache.release(self._ours.pop(request))

    def _caught_up(self, request: Request, count: int) -> Request | None:
        """Return our own request with the present tokens, its cache truncated to what still matches, slots reserved.

        None if count is 0 or the KV cache has no capacity.
        """
        if not count:
            return None
        text = request.tokens(0, request.num_tokens)
        if request not in self._ours:
            own = Request(list(text), request.max_tokens)
            if not self.kv_cache.admit(own):
                return None
            self._ours[request] = own
        own = self._ours[request]
        right = 0
        while right < min(own.num_computed_tokens, len(text) - 1) and own.prompt[right] == text[right]:
            right += 1
        if right < own.num_computed_tokens:
            self.kv_cache.truncate(own, right)
        own.prompt, own.num_computed_tokens = text, right
        return own if self.kv_cache.reserve(own, own.num_uncomputed_tokens + count - 1) else None
