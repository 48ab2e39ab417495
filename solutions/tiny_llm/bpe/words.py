"""Words and their counts: all that training a tokenizer reads of a text."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from ..tokenizer import GPT2_PATTERN, ByteLevelBPE


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
    splitter = ByteLevelBPE({}, [], {token: i for i, token in enumerate(special_tokens)}, pattern, normalization)
    counts: Counter[str] = Counter()  # of words as text: each distinct word is converted to bytes only once
    for text in texts:
        for part in splitter.specials.split(text) if splitter.specials else [text]:
            if part not in splitter.special_tokens:
                part = unicodedata.normalize(normalization, part) if normalization else part  # type: ignore[arg-type]
                counts.update(splitter.words.findall(part))
    return {"".join(splitter.alphabet[byte] for byte in word.encode()): count for word, count in counts.items()}
