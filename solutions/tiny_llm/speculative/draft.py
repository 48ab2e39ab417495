"""Drafts by a small model, which has a memory of its own."""

from collections.abc import Sequence

import mlx.core as mx

from ..serving.memory import Memory
from ..serving.request import Request, next_chunk
from ..serving.step import Model
from .chances import DRAFTING, pick, probabilities, uniforms
from .drafts import Draft


class DraftModel:
    """A small model with the same tokens, that writes ahead."""

    def __init__(self, model: Model, memory: Memory) -> None:
        """Begin with no requests.

        Args:
            model: reads chunks, and scores what follows them.
            memory: the small model's own. It knows requests of ours, one for each that is drafted for: what they have
                read is not what the large model has.
        """
        self.model, self.memory = model, memory
        self._ours: dict[Request, Request] = {}

    def draft(self, requests: list[Request], counts: list[int]) -> list[Draft]:
        """Continue each text by as many tokens as are wanted: all of them together, a token at a time.

        The small model reads what its memory has not got, in one chunk, and then each token that it has drawn but the
        last. What memory has got of an earlier draft stays as far as the text has taken it, and is forgotten from there
        on; at least the text's last token is read. Token number i of a draft is drawn, by `pick`, of the
        `probabilities` that the request's params leave, with one of the `uniforms` of its seed, for DRAFTING, at place
        len(request.output) + i. Tokens drafted before it are seen by the penalty, too.

        Args:
            requests: with at least one token each, no two the same. They are not changed.
            counts: how many tokens are wanted of each.

        Returns:
            A draft for each, with its probabilities, count x V. For a count of 0, and where memory has no room, there
            are no tokens, and the model reads nothing.
        """
        ours = [self._caught_up(request, count) for request, count in zip(requests, counts, strict=True)]
        drawn: list[list[int]] = [[] for _ in requests]
        rows: list[list[mx.array]] = [[] for _ in requests]
        for number in range(max(counts, default=0)):
            writing = [i for i, own in enumerate(ours) if own and number < counts[i]]
            if not writing:
                break
            chunks = [next_chunk(own, own.unread) for i in writing if (own := ours[i])]
            logits = self.model(chunks, self.memory)  # R x V
            params = [requests[i].params for i in writing]
            found = probabilities(logits, params, [chunk.request.prompt for chunk in chunks])
            for i, chunk, row in zip(writing, chunks, found, strict=True):
                (draw,) = uniforms(requests[i].params.seed, len(requests[i].output) + number, 1, DRAFTING)
                drawn[i].append(pick(row, draw))
                rows[i].append(row)
                chunk.request.read = chunk.end
                chunk.request.prompt.append(drawn[i][-1])
        return [Draft(tokens, mx.stack(own)) if tokens else Draft() for tokens, own in zip(drawn, rows, strict=True)]

    def keep(self, running: Sequence[Request]) -> None:
        """Let go of all requests but these, and of what memory has of them."""
        for request in [each for each in self._ours if each not in running]:
            self.memory.release(self._ours.pop(request))

    def _caught_up(self, request: Request, count: int) -> Request | None:
        """Our own request with the text as it is now, of which memory has what is still right, and room for a draft."""
        if not count:
            return None
        text = request.tokens(0, request.length)
        if request not in self._ours:
            own = Request(list(text), request.max_tokens)
            if not self.memory.begin(own):
                return None
            self._ours[request] = own
        own = self._ours[request]
        right = 0
        while right < min(own.read, len(text) - 1) and own.prompt[right] == text[right]:
            right += 1
        if right < own.read:
            self.memory.shorten(own, right)
        own.prompt, own.read = text, right
        return own if self.memory.reserve(own, own.unread + count - 1) else None
