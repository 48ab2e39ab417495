"""Contamination: how much of an evaluation item occurs word for word in the training documents."""

from collections.abc import Iterable, Sequence


def contaminated_share(items: Sequence[Sequence[int]], documents: Iterable[Sequence[int]], n: int) -> list[float]:
    """Return, for each item, the share of its n-grams that occur in at least one of the documents.

    An n-gram is n successive tokens. An item of L tokens has L - n + 1 of them; one that occurs several times in the
    item counts as often. No n-gram spans two documents. A document that is shorter than n has none.

    Args:
        items: token ids of the evaluation items.
        documents: token ids of the training documents. They are read once, in order, and at most one at a time is kept
            in memory, with its n-grams, so they may come from a generator that reads files.
        n: how many tokens, such as 13.

    Returns:
        A new list of floats from 0 to 1, one per item.

    Raises:
        ValueError: n is below 1, or an item has fewer than n tokens: a share of 0 would call it clean. The message
            states n and, for an item, its index. No document has been read then.

    Source: Brown et al. 2020, appendix C.
    """
    if n < 1:
        raise ValueError(f"n is {n}, but an n-gram has at least 1 token")
    for number, item in enumerate(items):
        if len(item) < n:
            raise ValueError(f"item {number} has {len(item)} tokens, so it has no n-gram of {n}")
    wanted = {gram for item in items for gram in _ngrams(item, n)}
    found: set[tuple[int, ...]] = set()
    for document in documents:
        found.update(wanted.intersection(_ngrams(document, n)))
    return [sum(gram in found for gram in grams) / len(grams) for grams in (_ngrams(item, n) for item in items)]


def _ngrams(tokens: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """Return all n-grams in order."""
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]
