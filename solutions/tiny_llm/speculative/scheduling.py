"""Speculative decoding in the scheduler: a policy that appends drafts to chunks, and a sampler that verifies them."""

from collections.abc import Sequence

import mlx.core as mx

from ..serving.policies import unchunked_prefill
from ..serving.request import Chunk, Request
from ..serving.step import Policy
from .acceptance import accept
from .drafter import Draft, Drafter
from .probabilities import VERIFY, probabilities, uniforms


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
        self.drafter, self.num_speculative_tokens, self.inner = drafter, num_speculative_tokens, inner
        self.num_draft_tokens = self.num_accepted_tokens = 0
        self._drafts: dict[Request, Draft] = {}  # of the planned step

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
        self.drafter.retain(running)
        chunks = self.inner(running, token_budget)
        left = token_budget - sum(len(chunk.tokens) for chunk in chunks)
        wanted: dict[Request, int] = {}
        for chunk in chunks:
            needed = chunk.request.max_tokens - len(chunk.request.output) - 1
            count = min(self.num_speculative_tokens, needed, left)
            if chunk.num_logits and count > 0:
                wanted[chunk.request] = count
                left -= count
        drafts = self.drafter.propose(list(wanted), list(wanted.values())) if wanted else []
        self._drafts = dict(zip(wanted, drafts, strict=True))
        return [self._with_draft(chunk) for chunk in chunks]

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
        rows = [(chunk, chunk.end - behind) for chunk in chunks for behind in reversed(range(chunk.num_logits))]
        if not rows:
            return [[] for _ in chunks]
        seen = [chunk.request.tokens(0, chunk.start) + chunk.tokens[: end - chunk.start] for chunk, end in rows]
        target = probabilities(logits, [chunk.request.params for chunk, _ in rows], seen)  # R x V
        chosen, at = [], 0
        for chunk in chunks:
            own = target[at : (at := at + chunk.num_logits)]  # (k + 1) x V
            chosen.append(self._verify(own, chunk) if chunk.num_logits else [])
        return chosen

    def _with_draft(self, chunk: Chunk) -> Chunk:
        """Return a chunk with its request's draft appended."""
        drafted = self._drafts[chunk.request].tokens if chunk.request in self._drafts else []
        return Chunk(chunk.request, chunk.start, chunk.tokens + drafted, chunk.num_logits + len(drafted))

    def _verify(self, target: mx.array, chunk: Chunk) -> list[int]:
        """Return the new tokens of one chunk."""
        request, draft = chunk.request, self._drafts.get(chunk.request, Draft())
        if request.params.temp:
            draws = uniforms(request.params.seed, len(request.output), chunk.num_logits, VERIFY)
            accepted, token = accept(target, draft.rows(target.shape[1]), draft.tokens, draws)
        else:  # each row is one-hot: a draft token is accepted if it is the most likely one, whatever u is
            likeliest: list[int] = mx.argmax(target, axis=-1).tolist()  # type: ignore[assignment] # k + 1 tokens
            pairs = enumerate(zip(draft.tokens, likeliest, strict=False))
            accepted = next((i for i, (guess, best) in pairs if guess != best), len(draft.tokens))
            token = likeliest[accepted]
        self.num_draft_tokens += len(draft.tokens)
        self.num_accepted_tokens += accepted
        return [*draft.tokens[:accepted], token]
