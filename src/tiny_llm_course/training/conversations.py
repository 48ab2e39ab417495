"""Stories told as conversations: what a story is about, who asks for it, and the chat template."""

import random
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

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
SMALL_TALK_ONE_IN = 60  # stories per exchange of small talk
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


def documents(stories: list[str], chat_share: float, seed: str) -> list[str]:
    """Return each story once, as it is or as a conversation's answer, with some small talk between them."""
    draw = random.Random(seed)
    things = words_for_things(stories) if chat_share else frozenset[str]()
    told = []
    for story in stories:
        chatting = draw.random() < chat_share
        told.append(rendered(conversation(story, topics(story, things), draw)) if chatting else story)
        if chat_share and draw.random() < 1 / SMALL_TALK_ONE_IN:
            told.append(rendered(small_talk(draw)))
    return told


def rendered(turns: list[tuple[str, str]]) -> str:
    """Return a conversation in the chat template."""
    return "".join(f"{TURN_BEGIN}{role}\n{said}{TURN_END}\n" for role, said in turns)
