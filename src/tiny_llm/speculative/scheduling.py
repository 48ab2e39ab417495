"""Drafts in the scheduler's loop: a plan that adds them to chunks, and a choice that judges them."""

from collections.abc import Sequence

import mlx.core as mx

from ..serving.plans import whole_prompts
from ..serving.request import Chunk, Request
from ..serving.step import Plan
from .acceptance import accept
from .drafts import Drafter


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
        raise NotImplementedError("3.6.4 Drafts in the loop")

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
        raise NotImplementedError("3.6.4 Drafts in the loop")

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
        raise NotImplementedError("3.6.4 Drafts in the loop")
