"""Stories as answers to requests, and small talk. A topic is a thing in the opening that occurs three times."""

import random
import re
from collections import Counter

TURN_BEGIN, TURN_END = "<|im_start|>", "<|im_end|>"

# Qwen's turn format; the model continues after the assistant's header line.
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
    """Return an exchange that asks for no story."""
    said, answers = draw.choice(talk)
    return [("user", draw.choice(said)), ("assistant", draw.choice(answers))]


def with_article(word: str) -> str:
    """Return the word with its indefinite article."""
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
