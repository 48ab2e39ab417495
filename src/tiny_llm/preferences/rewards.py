"""Rewards that a program can check: no model judges the text."""

import re


def story_reward(text: str, thing: str, ended: bool, longest: int = 60) -> float:
    """Return what a short story about a thing gets: 0.5 if it names the thing, 0.5 if it ends in time.

    Args:
        text: the completion.
        thing: what the story should be about, one word; its plural in -s counts.
        ended: whether the model ended the story itself.
        longest: the number of words that the story may have.
    """
    return 0.5 * (count_mentions(text, thing) > 0) + 0.5 * (ended and len(text.split()) <= longest)


def mention_reward(text: str, thing: str) -> float:
    """Return the number of times that a text names a thing: a reward that is easy to hack."""
    return float(count_mentions(text, thing))


def count_mentions(text: str, thing: str) -> int:
    """Return how often a text names a thing as a word, in any case; its plural in -s counts."""
    return len(re.findall(rf"\b{re.escape(thing)}s?\b", text, re.IGNORECASE))
