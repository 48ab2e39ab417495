"""Drafts in the scheduler's loop: a plan that adds them to chunks, and a choice that judges them."""

from collections.abc import Sequence

import mlx.core as mx

from ..serving.plans import whole_prompts
from ..serving.request import Chunk, Request
from ..serving.step import Plan
from .acceptance import accept
from .chances import JUDGING, probabilities, uniforms
from .drafts import Draft, Drafter


class Speculation:
    """What a `Scheduler` gets for its `plan` and its `choose`, so that a step may give a request several tokens."""

    drafted: int  # how many drafted tokens were judged, so far
    accepted: int  # how many of them stood

    def __init__(self, drafter: Drafter, count: int = 4, inner: Plan = whole_prompts) -> None:
        """Begin with nothing drafted.

        Args:
            drafter: guesses tokens.
            count: how many it is asked for at most, for each request and step.
            inner: cuts what is unread into chunks.
        """
        self.drafter, self.count, self.inner = drafter, count, inner
        self.drafted = self.accepted = 0
        self._drafts: dict[Request, Draft] = {}  # of the step that is planned

    def plan(self, running: Sequence[Request], budget: int) -> list[Chunk]:
        """The chunks of the inner plan, with a draft behind each that comes to the end of its text.

        The drafter is told who is running, and then asked once, for all requests that may have at least one token: as
        many as `count`, as the budget leaves, the first chunk first, and as could still be needed, since a step gives
        one token besides and `max_tokens` ends the text.

        Args:
            running: the requests that have been let in, the oldest first.
            budget: how many tokens all chunks may have together, drafted ones included.

        Returns:
            A chunk for each of the inner plan's, in its order: with k drafted tokens behind its own, `scored` is k + 1.
        """
        self.drafter.keep(running)
        chunks = self.inner(running, budget)
        left = budget - sum(len(chunk.tokens) for chunk in chunks)
        wanted: dict[Request, int] = {}
        for chunk in chunks:
            needed = chunk.request.max_tokens - len(chunk.request.output) - 1
            count = min(self.count, needed, left)
            if chunk.scored and count > 0:
                wanted[chunk.request] = count
                left -= count
        drafts = self.drafter.draft(list(wanted), list(wanted.values())) if wanted else []
        self._drafts = dict(zip(wanted, drafts, strict=True))
        return [self._with_draft(chunk) for chunk in chunks]

    def choose(self, logits: mx.array, chunks: list[Chunk]) -> list[list[int]]:
        """Judge what was drafted, as `accept` does, and choose the token behind it.

        Both the target's probabilities and the draft's are those that the params of the request leave: row i of a chunk
        comes after the text and i drafted tokens, which the penalty sees, too. The k + 1 numbers are the `uniforms` of
        its seed, for JUDGING, at place len(request.output). So a text depends on its own params and seed and on what is
        drafted for it, and not on who else is in the batch. `drafted` counts the drafted tokens that were judged, and
        `accepted` those that stood.

        Args:
            logits: R x V, `scored` rows for each chunk, in the order of the chunks.
            chunks: of the last plan; some may be missing.

        Returns:
            A list for each chunk: the drafted tokens that stand, and one more; nothing if none was asked for.
        """
        rows = [(chunk, chunk.end - behind) for chunk in chunks for behind in reversed(range(chunk.scored))]
        if not rows:
            return [[] for _ in chunks]
        seen = [chunk.request.tokens(0, chunk.start) + chunk.tokens[: end - chunk.start] for chunk, end in rows]
        target = probabilities(logits, [chunk.request.params for chunk, _ in rows], seen)  # R x V
        chosen, at = [], 0
        for chunk in chunks:
            own = target[at : (at := at + chunk.scored)]  # (k + 1) x V
            chosen.append(self._judged(own, chunk) if chunk.scored else [])
        return chosen

    def _with_draft(self, chunk: Chunk) -> Chunk:
        """A chunk with what was drafted for its request behind it."""
        drafted = self._drafts[chunk.request].tokens if chunk.request in self._drafts else []
        return Chunk(chunk.request, chunk.start, chunk.tokens + drafted, chunk.scored + len(drafted))

    def _judged(self, target: mx.array, chunk: Chunk) -> list[int]:
        """The new tokens of one chunk."""
        request, draft = chunk.request, self._drafts.get(chunk.request, Draft())
        if request.params.temp:
            draws = uniforms(request.params.seed, len(request.output), chunk.scored, JUDGING)
            accepted, token = accept(target, draft.rows(target.shape[1]), draft.tokens, draws)
        else:  # in each row one token has all: whatever is drawn, what agrees with it stands
            likeliest: list[int] = mx.argmax(target, axis=-1).tolist()  # type: ignore[assignment] # k + 1 tokens
            pairs = enumerate(zip(draft.tokens, likeliest, strict=False))
            accepted = next((i for i, (guess, best) in pairs if guess != best), len(draft.tokens))
            token = likeliest[accepted]
        self.drafted += len(draft.tokens)
        self.accepted += accepted
        return [*draft.tokens[:accepted], token]
