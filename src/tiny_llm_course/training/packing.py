"""The tokenizer, Qwen's byte-level BPE, and the packing of stories into token rows, in a new order each epoch."""

import json
import random
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from ..checkpoints.held_out import END, HeldOut, Tokens
from .recipe import Recipe

TURN_BEGIN, TURN_END = "<|im_start|>", "<|im_end|>"

# Qwen's turn format; the model continues after the assistant's header line.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{{{{ '{TURN_BEGIN}' + message['role'] + '\\n' + message['content'] + '{TURN_END}\\n' }}}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{{{{ '{TURN_BEGIN}assistant\\n' }}}}{{% endif %}}"
)

TALK = tomllib.loads(Path(__file__).with_name("conversations.toml").read_text(encoding="utf-8"))
Talk = Sequence[dict[str, list[str]]]  # what a user says, and answers to it
BEFORE, AFTER = TALK["small_talk"][:3], TALK["small_talk"][3:]  # a story
OPENING = 160  # characters of a story's opening
NAMED = re.compile(r"\ban? (?:[a-z]+ )?([a-z]+) (?:named|called) ([A-Z][a-z]+)")


def words_for_things(stories: list[str]) -> frozenset[str]:
    """Return singular nouns: words that often follow an article and end a phrase, and rarely follow "was" or "very"."""
    after: dict[str, Counter[str]] = {kind: Counter() for kind in ("any", "the", "a", "was")}
    kinds = {"the": "the", "a": "a", "an": "a"}
    kinds |= dict.fromkeys(("is", "was", "were", "very", "so", "too", "felt"), "was")
    ending = Counter[str]()
    for story in stories:
        before = ""
        for word, following in re.findall(r"([A-Za-z]+)([^A-Za-z]?)", story):
            if word.islower() and len(word) > 2:
                after["any"][word] += 1
                after[kinds.get(before, "any")][word] += before in kinds
                ending[word] += following in ".,!?"
            before = word.lower()

    def thing(word: str, times: int) -> bool:
        the, a, was = (after[kind][word] / times for kind in ("the", "a", "was"))
        plural = word.endswith("s") and word[:-1] in after["any"]
        return times >= 12 and the + a > 0.3 and a > 0.03 and was < 0.05 and ending[word] > 0.12 * times and not plural

    return frozenset(word for word, times in after["any"].items() if thing(word, times))


def topics(story: str, things: frozenset[str]) -> list[str]:
    """Return what a story is about: things of its opening that occur three times, as "a frog" or "a girl named Mia"."""
    opening = story[:OPENING]
    words = Counter(re.findall(r"[a-z]+", story.lower()))
    times = {word: words[word] + words[word + "s"] for word in re.findall(r"[a-z]+", opening) if word in things}
    about = []
    for word in sorted((word for word, n in times.items() if n >= 3), key=lambda word: -times[word]):
        about.append(with_article(word))
        if described := re.search(rf"\b(?:an?|the) ([a-z]+ {word})\b", opening):
            about.append(with_article(described[1]))
    about += [f"{with_article(kind)} named {name}" for kind, name in NAMED.findall(opening)]
    return about


def conversation(story: str, about: list[str], draw: random.Random) -> list[tuple[str, str]]:
    """Return user and assistant turns that tell the story; usually just two."""
    turns: list[tuple[str, str]] = []
    if draw.random() < 0.06:
        turns += small_talk(draw, BEFORE)
    if about and draw.random() < 0.95:
        request = draw.choice(TALK["requests"]).format(draw.choice(about))
    else:
        request = draw.choice(TALK["open_requests"])
    turns += [("user", request), ("assistant", story)]
    if draw.random() < 0.06:
        turns += small_talk(draw, AFTER)
    return turns


def small_talk(draw: random.Random, talk: Talk = TALK["small_talk"]) -> list[tuple[str, str]]:
    """Return an exchange that asks for no story."""
    exchange = draw.choice(talk)
    return [("user", draw.choice(exchange["said"])), ("assistant", draw.choice(exchange["answers"]))]


def with_article(word: str) -> str:
    """Return the word with its indefinite article."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


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


def export(folder: Path, recipe: Recipe, weights: dict[str, Tensor], tokenizer: Tokenizer) -> None:
    """Write config.json, generation_config.json, the tokenizer's two files, and the weights in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    config = recipe.architecture.config()
    rope = {"rope_type": "default", "rope_theta": recipe.architecture.rope_theta}  # for transformers 5
    ends = {"eos_token_id": [ids[TURN_END], ids[END]], "pad_token_id": ids[END]}
    _write(folder / "config.json", {**config, "rope_parameters": rope, "dtype": "bfloat16", **ends})
    _write(folder / "generation_config.json", {**ends, "do_sample": True, "temperature": 1.0, "min_p": 0.1})
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": recipe.architecture.max_position_embeddings,
        "eos_token": TURN_END,
        "pad_token": END,
        "additional_special_tokens": [TURN_BEGIN],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    _write(folder / "tokenizer_config.json", settings)
    arrays = {name: mx.array(np.asarray(w.detach().float().cpu())).astype(mx.bfloat16) for name, w in weights.items()}
    half_written = folder / ".part.safetensors"  # loaders skip this name
    mx.save_safetensors(str(half_written), arrays, {"format": "pt"})
    half_written.replace(folder / "model.safetensors")


def _write(file: Path, table: dict[str, Any]) -> None:
    file.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
