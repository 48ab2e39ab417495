"""Stories told as the answer to a request, and a little small talk: what makes of a model one that can be chatted with.

What a request asks for is taken from the story itself: a thing that its opening names and that comes back at least
twice. Which words name things is counted, not listed.
"""

import random
import re
from collections import Counter

TURN_BEGIN, TURN_END = "<|im_start|>", "<|im_end|>"

# `{% for %}` over the turns, as Qwen writes them; the model continues after the assistant's first line.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{{{{ '{TURN_BEGIN}' + message['role'] + '\\n' + message['content'] + '{TURN_END}\\n' }}}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{{{{ '{TURN_BEGIN}assistant\\n' }}}}{{% endif %}}"
)

REQUESTS = (
    "Write a story about {}.",
    "Tell me a story about {}.",
    "Write a short story about {}.",
    "Can you tell me a story about {}?",
    "Please write a story about {}.",
    "I would like a story about {}.",
    "A story about {}, please.",
    "story about {}",
)
OPEN_REQUESTS = ("Tell me a story.", "Write a story.", "Can you tell me a story?", "Another story, please.")
SMALL_TALK = (
    (
        ("Hello!", "Hello", "Hi!", "Hi", "Hey", "Good morning!", "Hi there!"),
        (
            "Hello! I tell short stories. What should one be about?",
            "Hi! Would you like a story? Name something for it.",
        ),
    ),
    (
        ("Who are you?", "What are you?", "What is your name?", "Are you a robot?"),
        ("I am a very small language model. All I know is how to tell short stories.",),
    ),
    (
        ("What can you do?", "Can you help me?", "Help", "How are you?", "What do you know?"),
        ("I can tell a short story. Say what it should be about: a cat, a boat or a tree.",),
    ),
    (
        ("Thank you!", "Thanks!", "Thank you", "That was nice.", "Nice story!", "I liked that."),
        ("You are welcome! Shall I tell another one?", "I am glad you liked it!"),
    ),
    (("Bye!", "Goodbye!", "Good night!", "Bye"), ("Goodbye! Come back for another story.", "Good night! Sleep well.")),
)
OPENING = 160  # characters in which a story says what it is about
NAMED = re.compile(r"\ban? (?:[a-z]+ )?([a-z]+) (?:named|called) ([A-Z][a-z]+)")


def words_for_things(stories: list[str]) -> frozenset[str]:
    """Nouns in the singular: words that often follow an article and end a phrase, and seldom follow "was" or "very"."""
    after: dict[str, Counter[str]] = {kind: Counter() for kind in ("any", "the", "a", "was")}
    kinds = {"the": "the", "a": "a", "an": "a"} | dict.fromkeys(
        ("is", "was", "were", "very", "so", "too", "felt"), "was"
    )
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
    """What a story is about, as one would ask for it: things of its opening that it names three times or more.

    A thing comes as "a frog", and with the opening's own adjective as "a green frog"; somebody who has a name comes as
    "a girl named Mia".
    """
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
    """Turns of user and assistant in which the story is told; mostly just the two."""
    turns: list[tuple[str, str]] = []
    if draw.random() < 0.06:
        turns += small_talk(draw, SMALL_TALK[:3])
    if about and draw.random() < 0.95:
        request = draw.choice(REQUESTS).format(draw.choice(about))
    else:
        request = draw.choice(OPEN_REQUESTS)
    turns += [("user", request), ("assistant", story)]
    if draw.random() < 0.06:
        turns += small_talk(draw, SMALL_TALK[3:])
    return turns


def small_talk(
    draw: random.Random, talk: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = SMALL_TALK
) -> list[tuple[str, str]]:
    """Somebody says something that asks for no story, and is answered."""
    said, answers = draw.choice(talk)
    return [("user", draw.choice(said)), ("assistant", draw.choice(answers))]


def with_article(word: str) -> str:
    """As one asks for it."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
