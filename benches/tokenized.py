"""Stories as tokens of Hugging Face's `tokenizers`, for the benchmarks that train or judge models."""

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tiny_llm_course.checkpoints.held_out import END, HeldOut
from tiny_llm_course.training.run import SPECIAL, WORDS


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """Return a tokenizer of `vocab_size` tokens: 256 bytes, learned merges, and the special tokens last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(WORDS), behavior="isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    learned, alphabet = vocab_size - len(SPECIAL), pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=learned, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def held_out(stories: list[str], tokenizer: Tokenizer, longest: int) -> HeldOut:
    """Return the held-out stories of at most `longest` tokens."""
    end = tokenizer.token_to_id(END)
    encoded = ((story, encoding.ids) for story, encoding in zip(stories, tokenizer.encode_batch(stories), strict=True))
    fitting = [(len(story.encode()), np.array([end, *ids, end])) for story, ids in encoded if len(ids) < longest]
    return HeldOut([row for _, row in fitting], sum(size for size, _ in fitting))
