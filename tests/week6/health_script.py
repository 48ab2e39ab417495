"""Scripts for a replica's health: events in a word each, and the state after each of them by formula."""

import random
from collections.abc import Sequence
from typing import Any

from tests.week6.replicas import Prefixes, Replica

EVENTS = {
    "start": "started",
    "pass": "probe passed",
    "miss": "probe failed",
    "ok": "answered",
    "fail": "failed",
    "full": "rejected",
    "drain": "drain",
    "exit": "exited",
}


def script(text: str) -> list[str]:
    """Return the words of "pass*2 run=3 fail"; run=3 sets `running`."""
    found = []
    for word in text.split():
        name, _, times = word.partition("*")
        found += [name] * int(times or 1)
    return found


def observed(program: Any, words: Sequence[str], limit: int = 8, **counts: int) -> list[str]:
    """Return the replica's state, limit and running count after each event, and whether its prefixes are kept."""
    replica = Replica("r0", "starting", 0, limit, Prefixes([1]))
    health, found = program(replica, **counts), []
    for word in words:
        if word.startswith("run="):
            replica.running = int(word[4:])
        else:
            health.observe(EVENTS[word])
        if word in ("pass", "start") and replica.state == "ready":
            replica.prefixes.add([1])
        found.append(_shown(word, replica, bool(health.drained)))
    return found


def _shown(word: str, replica: Any, drained: bool) -> str:
    seen = "" if replica.prefixes.match([1]) else ", no prefixes"
    return f"{word}: {replica.state}, {replica.running}/{replica.limit}{seen}{', drained' * drained}"


def observed_by_formula(words: Sequence[str], limit: int = 8, up: int = 2, down: int = 3) -> list[str]:
    """Return the same by the docstring: the counts are read from the history since the last change of the state."""
    replica = Replica("r0", "starting", 0, limit, Prefixes([1]))
    since, found = list[str](), []

    def row(kind: str, ends: str) -> int:
        count = 0
        for word in reversed(since):
            if word == ends:
                break
            count += word == kind
        return count

    for word in words:
        since.append(word)
        serves, state = replica.state in ("ready", "draining"), ""
        if word.startswith("run="):
            replica.running = int(word[4:])
        elif word == "exit" or (serves and row("miss", "pass") >= down) or (serves and row("fail", "ok") >= down):
            state = "dead"
        elif word == "start" and replica.state == "dead":
            state = "starting"
        elif word == "pass" and replica.state in ("starting", "dead") and row("pass", "miss") >= up:
            state = "ready"
        elif word == "drain" and replica.state in ("starting", "ready"):
            state = "draining"
        elif word == "ok":
            replica.limit = min(limit, replica.limit + 1)
        elif word == "full":
            replica.limit = min(replica.limit, max(1, replica.running - 1))
        if state:
            replica.state = state
            since.clear()
        if state == "dead":
            replica.limit = limit
            replica.prefixes.clear()
        if word in ("pass", "start") and replica.state == "ready":
            replica.prefixes.add([1])
        found.append(_shown(word, replica, replica.state == "draining" and replica.running == 0))
    return found


def random_script(seed: int, length: int) -> list[str]:
    """Draw events, in runs, so that counts are reached."""
    draw, words = random.Random(seed), list[str]()
    while len(words) < length:
        word = draw.choice([*EVENTS, "pass", "pass", "pass", "miss", "fail", "ok", f"run={draw.randint(0, 9)}"])
        words += [word] * draw.choice([1, 1, 2, 3])
    return words[:length]
