"""The tokenizer, Qwen's byte-level BPE, and the packing of stories into token rows, in a new order each epoch."""

import random

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ..checkpoints.held_out import END, HeldOut, Tokens
from .conversations import TURN_BEGIN, TURN_END, conversation, small_talk, topics, words_for_things

SPECIAL = (END, TURN_BEGIN, TURN_END)
# Qwen's pre-tokenization: bytes are merged only within these words.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SMALL_TALK_ONE_IN = 60  # stories per exchange of small talk


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


class Packer:
    """Tokenized stories, and epochs made of them."""

    def __init__(self, stories: list[str], tokenizer: Tokenizer, context: int, chat_share: float, seed: int) -> None:
        self.stories, self.context, self.chat_share, self.seed = stories, context, chat_share, seed
        self._tokenizer = tokenizer
        self._end = tokenizer.token_to_id(END)
        self._plain = [encoding.ids for encoding in tokenizer.encode_batch(stories)]
        things = words_for_things(stories) if chat_share else frozenset[str]()
        self._topics = [topics(story, things) for story in stories] if chat_share else []

    def epoch(self, number: int) -> Tokens:
        """Return all stories once, in this epoch's order, packed: rows x (context + 1), overlapping by one token."""
        draw = random.Random(f"{self.seed} {number}")
        order = list(range(len(self.stories)))
        draw.shuffle(order)
        tokens = [self._end]
        for index in order:
            if draw.random() < self.chat_share:
                tokens += self._turns(conversation(self.stories[index], self._topics[index], draw))
            else:
                tokens += self._plain[index]
            tokens.append(self._end)
            if self.chat_share and draw.random() < 1 / SMALL_TALK_ONE_IN:
                tokens += [*self._turns(small_talk(draw)), self._end]
        starts = np.arange(0, len(tokens) - self.context, self.context)
        rows = np.asarray(tokens)[starts[:, None] + np.arange(self.context + 1)]
        return np.random.default_rng([self.seed, number]).permutation(rows)

    def _turns(self, turns: list[tuple[str, str]]) -> list[int]:
        text = "".join(f"{TURN_BEGIN}{role}\n{said}{TURN_END}\n" for role, said in turns)
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids


def held_out(stories: list[str], tokenizer: Tokenizer, longest: int) -> HeldOut:
    """Return the held-out stories of at most `longest` tokens."""
    end = tokenizer.token_to_id(END)
    encoded = ((story, encoding.ids) for story, encoding in zip(stories, tokenizer.encode_batch(stories), strict=True))
    fitting = [(len(story.encode()), np.array([end, *ids, end])) for story, ids in encoded if len(ids) < longest]
    return HeldOut([row for _, row in fitting], sum(size for size, _ in fitting))
