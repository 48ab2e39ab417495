"""Speculative decoding in the scheduler: a policy that appends drafts to chunks, and a sampler that verifies them."""

from collections.abc import Sequence

import mlx.core as mx

from ..serving.policies import unchunked_prefill
from ..serving.request import Chunk, Request
from ..serving.step import Policy
from .acceptance import accept
from .drafter import Drafter


class Speculation:
    """A scheduler's `policy` (`plan`) and `sampler` (`sample`), by which a step may yield several tokens."""

    num_draft_tokens: int  # how many draft tokens were verified so far
    num_accepted_tokens: int  # how many of them were accepted

    def __init__(self, drafter: Drafter, num_speculative_tokens: int = 4, inner: Policy = unchunked_prefill) -> None:
        """Start with no drafts.

        Args:
            drafter: proposes draft tokens.
            num_speculative_tokens: the maximum number of draft tokens for each request and step.
            inner: the policy that selects the chunks which drafts are appended to.
        """
        raise NotImplementedError("3.6.4 Drafts in the loop")

    def plan(self, running: Sequence[Request], token_budget: int) -> list[Chunk]:
        """Return the inner policy's chunks, with a draft appended to each that reaches the end of its request.

        The drafter gets the running requests, by `retain`, and is then called once, for all requests that may have at
        least one draft token: at most `num_speculative_tokens`, at most what is left of the token budget, the first
        chunk first, and at most what can still be used, since a step yields one more token than are accepted, and
        `max_tokens` ends the output.

        Args:
            running: the admitted requests, the oldest first.
            token_budget: the maximum number of tokens in all chunks together, draft tokens included.

        Returns:
            A chunk for each of the inner policy's, in its order: with k draft tokens after its own, `num_logits` is
            k + 1.
        """
        raise NotImplementedError("3.6.4 Drafts in the loop")

    def sample(self, logits: mx.array, chunks: list[Chunk]) -> list[list[int]]:
        """Verify the draft tokens with `accept`, and sample the token that follows the accepted ones.

        The target's probabilities and the draft's both have the request's sampling params applied: row i of a chunk
        follows the sequence and i draft tokens, which the penalty sees as well. The k + 1 uniform samples are the
        `uniforms` of the request's seed, for VERIFY, at position len(request.output). So an output depends on its own
        params, seed and drafts, and not on what else is in the batch. `num_draft_tokens` counts the verified draft
        tokens, and `num_accepted_tokens` the accepted ones.

        Args:
            logits: R x V, `num_logits` rows for each chunk, in the order of the chunks.
            chunks: of the last plan; some may be missing.

        Returns:
            A list for each chunk: the accepted draft tokens, and one more; nothing if `num_logits` is 0.
        """
        raise NotImplementedError("3.6.4 Drafts in the loop")
