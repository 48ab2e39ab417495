"""Learning merges the slow way: count all pairs again after every merge."""

from collections import Counter
from itertools import pairwise

from ..tokenizer import byte_alphabet, merge_pairs


def train_naively(word_counts: dict[str, int], num_merges: int) -> list[tuple[str, str]]:
    """Learn merges: merge the most frequent adjacent pair of tokens everywhere, `num_merges` times.

    At first, every character of a word is a token. A pair's count is the number of places at which its two tokens are
    adjacent, each place counted as often as its word: the word "aaa" with count 5 has the pair a, a 10 times.
    A merge replaces the pair by one token in all words, from left to right, so that "aaa" becomes "aa", "a".

    Ties: every token has an id. The 256 characters of `byte_alphabet` have the ids 0 to 255 in the order of their
    code points, which is not the order of the bytes: the space, "\u0120", comes after the letters. The first merge's
    token has id 256, the next 257, and so on. Of several most frequent pairs, the one whose left token has the
    smallest id is merged, and among these the one whose right token has the smallest id.

    Args:
        word_counts: as returned by `count_words`. It is not changed.
        num_merges: how many merges to learn.

    Returns:
        The pairs in the order in which they were learned; fewer than `num_merges` if no two tokens are adjacent any
        more. A pair that occurs only once is merged like any other.

    Raises:
        ValueError: num_merges is negative, or a word has a character that is not in `byte_alphabet`. The message
            states the number or the word.

    Source: Sennrich et al. 2016, section 3.2; the ties are those of Hugging Face's `tokenizers`.
    """
    if num_merges < 0:
        raise ValueError(f"num_merges is {num_merges}, but must be at least 0")
    ids = {character: i for i, character in enumerate(sorted(byte_alphabet().values()))}
    if foreign := [word for word in word_counts if not ids.keys() >= {*word}]:
        raise ValueError(f"the word {foreign[0]!r} has a character that is not in byte_alphabet()")
    words = [(list(word), count) for word, count in word_counts.items()]
    merges: list[tuple[str, str]] = []
    while len(merges) < num_merges:
        counts: Counter[tuple[str, str]] = Counter()
        for tokens, count in words:
            for pair in pairwise(tokens):
                counts[pair] += count
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], ids[pair[0]], ids[pair[1]]))
        merges.append(best)
        ids["".join(best)] = len(ids)
        words = [(merge_pairs(tokens, {best: 0}), count) for tokens, count in words]
    return merges
