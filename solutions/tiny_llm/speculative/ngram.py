"""Drafts without a model: what followed an earlier occurrence of the last tokens (prompt lookup)."""

from collections.abc import Sequence

from ..serving.request import Request
from .drafter import Draft


def prompt_lookup(tokens: list[int], count: int, max_ngram: int = 3, min_ngram: int = 1) -> list[int]:
    """Propose what followed an earlier occurrence of the last tokens.

    Of the last `max_ngram` tokens down to the last `min_ngram`, the longest n-gram with an earlier occurrence decides;
    of its earlier occurrences, the latest one. An occurrence may overlap with the end of the sequence.

    Args:
        tokens: the sequence so far. It is not modified.
        count: the maximum number of tokens to propose.
        max_ngram: the length of the longest n-gram to look for.
        min_ngram: the length of the shortest one.

    Returns:
        Up to `count` tokens that follow that occurrence: fewer if the sequence ends first, none if there is no
        occurrence.

    Raises:
        ValueError: count is below 0, min_ngram below 1 or max_ngram below min_ngram; the message gives the number.

    Source: Saxena 2023 (prompt lookup decoding).
    """
    if count < 0:
        raise ValueError(f"count is {count}, but must be at least 0")
    if not 1 <= min_ngram <= max_ngram:
        raise ValueError(f"min_ngram is {min_ngram} and max_ngram {max_ngram}: 1 <= min_ngram <= max_ngram must hold")
    for size in range(min(max_ngram, len(tokens) - 1), min_ngram - 1, -1):
        end = tokens[-size:]
        for first in range(len(tokens) - size - 1, -1, -1):  # the latest occurrence first
            if tokens[first] == end[0] and tokens[first : first + size] == end:  # most positions fail at once
                return tokens[first + size : first + size + count]
    return []


class NgramDrafter:
    """Drafts each request's continuation by `prompt_lookup` in its own tokens."""

    def __init__(self, max_ngram: int = 3, min_ngram: int = 1) -> None:
        """Set the n-gram lengths, as for `prompt_lookup`."""
        self.max_ngram, self.min_ngram = max_ngram, min_ngram

    def propose(self, requests: list[Request], counts: list[int]) -> list[Draft]:
        """As `Drafter`; nothing is sampled."""
        drafts = []
        for request, count in zip(requests, counts, strict=True):
            found = prompt_lookup(request.tokens(0, request.num_tokens), count, self.max_ngram, self.min_ngram)
            ends = [after for after, token in enumerate(found, 1) if token in request.eos_ids]
            drafts.append(Draft(found[: ends[0]] if ends else found))
        return drafts

    def retain(self, running: Sequence[Request]) -> None:
        """Do nothing: there is no state."""
