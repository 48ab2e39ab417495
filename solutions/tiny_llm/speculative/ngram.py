"""Drafts without a model: what followed the last time that the text stood like this."""

from collections.abc import Sequence

from ..serving.request import Request
from .drafts import Draft


def lookup(tokens: list[int], count: int, longest: int = 3, shortest: int = 1) -> list[int]:
    """Propose what followed an earlier occurrence of the text's last tokens.

    Of the last `longest` tokens down to the last `shortest`, the first run that has stood in the text before decides;
    of its earlier places, the latest one. It may overlap with the end of the text, but is not the end itself.

    Args:
        tokens: the text so far. It is not changed.
        count: how many tokens are wanted at most.
        longest: how many of the last tokens are looked for at first.
        shortest: how many at last.

    Returns:
        Up to `count` tokens that stand behind that place: fewer where the text ends sooner, none if there is no place.

    Raises:
        ValueError: count is below 0, shortest below 1 or longest below shortest; the number is named.

    Source: Saxena 2023 (prompt lookup decoding).
    """
    if count < 0:
        raise ValueError(f"{count} tokens are wanted, and none is the least")
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"the last {longest} tokens down to {shortest} are no runs: 1 is the least, and longest comes first"
        )
    for size in range(min(longest, len(tokens) - 1), shortest - 1, -1):
        end = tokens[-size:]
        for first in range(len(tokens) - size - 1, -1, -1):  # the latest place first
            if tokens[first] == end[0] and tokens[first : first + size] == end:  # most places fail at once
                return tokens[first + size : first + size + count]
    return []


class NgramDrafter:
    """Looks each request's continuation up in its own text."""

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        """Say how long a run is looked for, as `lookup`."""
        self.longest, self.shortest = longest, shortest

    def draft(self, requests: list[Request], counts: list[int]) -> list[Draft]:
        """As `Drafter`; every token is certain."""
        texts = [request.tokens(0, request.length) for request in requests]
        pairs = zip(texts, counts, strict=True)
        return [Draft(lookup(text, count, self.longest, self.shortest)) for text, count in pairs]

    def keep(self, running: Sequence[Request]) -> None:
        """There is nothing to forget."""
