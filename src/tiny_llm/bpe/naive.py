"""Learning merges the slow way: count all pairs again after every merge."""

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
    raise NotImplementedError("5.1.2 Learning merges")
