"""Learning merges fast: counts are updated only where a merge changes them."""

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
    raise NotImplementedError("5.1.3 Learning merges fast")
