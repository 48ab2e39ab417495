"""The tokenizer, byte-level BPE as Qwen has it, and from stories to rows of tokens.

Every epoch has another order, and other stories told as answers.
"""

import random

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ..checkpoints.held_out import END, HeldOut, Tokens
from .conversations import TURN_BEGIN, TURN_END, conversation, small_talk, topics, words_for_things

SPECIAL = (END, TURN_BEGIN, TURN_END)
# How Qwen's tokenizer.json cuts a text into words, within which bytes are merged.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# One exchange of small talk for so many stories.
SMALL_TALK_ONE_IN = 60


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """A tokenizer of `vocab_size` tokens: 256 bytes, merges learned from the texts, and last the special ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


class Packer:
    """Stories as tokens, and epochs made of them."""

    def __init__(self, stories: list[str], tokenizer: Tokenizer, context: int, chat_share: float, seed: int) -> None:
        self.stories, self.context, self.chat_share, self.seed = stories, context, chat_share, seed
        self._tokenizer = tokenizer
        self._end = tokenizer.token_to_id(END)
        self._plain = [encoding.ids for encoding in tokenizer.encode_batch(stories)]
        things = words_for_things(stories) if chat_share else frozenset[str]()
        self._topics = [topics(story, things) for story in stories] if chat_share else []

    def epoch(self, number: int) -> Tokens:
        """All stories once, packed: rows x (context + 1). The same number gives the same rows.

        A row's last token is the next row's first: each token is predicted once. What does not fill a row is left out.
        """
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
    """The stories of at most `longest` tokens."""
    end = tokenizer.token_to_id(END)
    encoded = ((story, encoding.ids) for story, encoding in zip(stories, tokenizer.encode_batch(stories), strict=True))
    fitting = [(len(story.encode()), np.array([end, *ids, end])) for story, ids in encoded if len(ids) < longest]
    return HeldOut([row for _, row in fitting], sum(size for size, _ in fitting))
