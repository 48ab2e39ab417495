"""From texts to a tokenizer.json: all steps of training a tokenizer."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..tokenizer import GPT2_PATTERN, ByteLevelBPE
from .files import save_tokenizer
from .trainer import train_bpe
from .words import count_words


def train_tokenizer(
    path: Path,
    texts: Iterable[str],
    vocab_size: int,
    special_tokens: Sequence[str] = (),
    pattern: str = GPT2_PATTERN,
    normalization: str | None = None,
) -> ByteLevelBPE:
    """Train a tokenizer of at most `vocab_size` tokens, write it to `path`, and return it.

    The 256 bytes and the special tokens are among the `vocab_size`. The arguments are those of `count_words` and
    `save_tokenizer`.
    """
    words = count_words(texts, pattern, special_tokens, normalization)
    merges = train_bpe(words, vocab_size - 256 - len(special_tokens))
    save_tokenizer(path, merges, special_tokens, pattern, normalization)
    return ByteLevelBPE.from_file(path)
