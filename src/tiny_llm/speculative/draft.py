"""Drafts by a small model, which has a memory of its own."""

from collections.abc import Sequence

from ..serving.memory import Memory
from ..serving.request import Request
from ..serving.step import Model
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
        raise NotImplementedError("3.6.3 A draft model")

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
        raise NotImplementedError("3.6.3 A draft model")

    def keep(self, running: Sequence[Request]) -> None:
        """Let go of all requests but these, and of what memory has of them."""
        raise NotImplementedError("3.6.3 A draft model")
