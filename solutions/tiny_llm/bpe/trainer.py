"""Learning merges fast: counts are updated only where a merge changes them."""

import heapq
from collections import Counter, defaultdict
from itertools import pairwise

from ..tokenizer import byte_alphabet

Pair = tuple[int, int]  # two token ids


def train_bpe(word_counts: dict[str, int], num_merges: int) -> list[tuple[str, str]]:
    """Learn the same merges as `train_naively`, ties included, in a fraction of the time.

    A merge visits only the words that contain its pair. A token's id decides ties, as in `train_naively`: 0 to 255
    for the characters of `byte_alphabet` in the order of their code points, then one per merge.

    Args:
        word_counts: as returned by `count_words`. It is not changed.
        num_merges: how many merges to learn.

    Returns:
        The pairs in the order in which they were learned; fewer than `num_merges` if no two tokens are adjacent any
        more.

    Raises:
        ValueError: num_merges is negative, or a word has a character that is not in `byte_alphabet`. The message
            states the number or the word.

    Source: `tokenizers.trainers.BpeTrainer`, which learns the same merges.
    """
    if num_merges < 0:
        raise ValueError(f"num_merges is {num_merges}, but must be at least 0")
    tokens = sorted(byte_alphabet().values())  # a token's id is its index
    ids = {character: i for i, character in enumerate(tokens)}
    if foreign := [word for word in word_counts if not ids.keys() >= {*word}]:
        raise ValueError(f"the word {foreign[0]!r} has a character that is not in byte_alphabet()")
    words = [[ids[character] for character in word] for word in word_counts]
    word_count = list(word_counts.values())
    counts: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)  # the words in which a pair occurs, or has occurred
    for i, word in enumerate(words):
        for pair in pairwise(word):
            counts[pair] += word_count[i]
            places[pair].add(i)
    heap = [(-count, pair) for pair, count in counts.items()]  # the smallest is the next merge, ties included
    heapq.heapify(heap)
    merges: list[tuple[str, str]] = []
    while heap and len(merges) < num_merges:
        negative, best = heapq.heappop(heap)
        if counts[best] != -negative:  # an old entry: the count has changed since
            continue
        merges.append((tokens[best[0]], tokens[best[1]]))
        tokens.append("".join(merges[-1]))
        changes: Counter[Pair] = Counter()
        for i in places.pop(best):
            for pair in pairwise(words[i]):
                changes[pair] -= word_count[i]
            words[i] = _replaced(words[i], best, len(tokens) - 1)
            for pair in pairwise(words[i]):
                changes[pair] += word_count[i]
                places[pair].add(i)
        for pair, change in changes.items():
            counts[pair] += change
            if change and counts[pair]:
                heapq.heappush(heap, (-counts[pair], pair))
    return merges


def _replaced(word: list[int], pair: Pair, token: int) -> list[int]:
    """Return a new word in which every occurrence of the pair is one token, from left to right."""
    replaced, i = [], 0
    while i < len(word):
        found = (*word[i : i + 2],) == pair
        replaced.append(token if found else word[i])
        i += 1 + found
    return replaced
