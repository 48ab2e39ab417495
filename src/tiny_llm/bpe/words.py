"""Words and their counts: all that training a tokenizer reads of a text."""

from collections.abc import Iterable, Sequence

from ..tokenizer import GPT2_PATTERN


def count_words(
    texts: Iterable[str],
    pattern: str = GPT2_PATTERN,
    special_tokens: Sequence[str] = (),
    normalization: str | None = None,
) -> dict[str, int]:
    """Count the words of the texts, split exactly as `ByteLevelBPE.encode` splits them.

    Special tokens split a text: if several match at the same place, the longest wins. They are not counted. The text
    between two of them is normalized, and then split into words.

    Args:
        texts: read once, in order; a generator will do. No word spans two texts.
        pattern: a regular expression without groups whose matches are the words.
        special_tokens: strings that are matched literally, never as a regular expression.
        normalization: a Unicode form such as "NFC", or None.

    Returns:
        How often each word occurs, in the order in which the words first occur. A word is written as its UTF-8 bytes
        in the characters of `byte_alphabet`: " dog" is "\u0120dog".

    Source: Sennrich et al. 2016, section 3.2; Hugging Face's `tokenizers`.
    """
    raise NotImplementedError("5.1.1 Counting words")
