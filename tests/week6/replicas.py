"""Fleets of replicas in a line of text each, and the choice among them by formula."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

OTHER = 10_000  # from here on, hashes of other prompts


class Prefixes:
    """The given class's methods, on a plain list."""

    def __init__(self, seen: Sequence[int] = ()) -> None:
        self.seen = list(seen)

    def match(self, blocks: Sequence[int]) -> int:
        """Return how many leading blocks were seen."""
        count = 0
        while count < len(blocks) and blocks[count] in self.seen:
            count += 1
        return count

    def add(self, blocks: Sequence[int]) -> None:
        """Remember blocks."""
        self.seen += [block for block in blocks if block not in self.seen]

    def clear(self) -> None:
        """Forget everything."""
        self.seen.clear()


@dataclass(eq=False)
class Replica:
    """The given class's fields."""

    name: str
    state: str = "ready"
    running: int = 0
    limit: int = 16
    prefixes: Prefixes = field(default_factory=Prefixes)


def fleet(text: str, blocks: Sequence[int]) -> list[Replica]:
    """Return the replicas of "ready 3/16 +2, dead 0/16 -4": state, running, limit, and what each has seen.

    +2: the first 2 of the prompt's blocks. -4: 4 blocks, but not the first one. *: nothing of it, another prompt.
    """
    found = []
    for number, words in enumerate(text.split(", ") if text else []):
        state, load, seen = words.split()
        running, limit = map(int, load.split("/"))
        count = 0 if seen == "*" else int(seen)
        own = blocks[:count] if count >= 0 else blocks[1 : 1 - count]
        found.append(Replica(f"r{number}", state, running, limit, Prefixes([OTHER + number, *own])))
    return found


def prompt_of(count: int) -> list[int]:
    """Return the hashes of a prompt with so many blocks."""
    return [101 + 7 * i for i in range(count)]


def chosen(program: Callable[..., Any], text: str, count: int) -> str:
    """Return the name of the replica that a program chooses for a prompt of `count` blocks, or "none"."""
    blocks = prompt_of(count)
    found = program(fleet(text, blocks), blocks)
    return "none" if found is None else str(found.name)


def chosen_by_formula(text: str, count: int) -> str:
    """Return the same by the docstring: sort the replicas that can take a request."""
    blocks = prompt_of(count)
    fits = [each for each in fleet(text, blocks) if each.state == "ready" and each.limit > each.running]
    if not fits:
        return "none"
    by_load = sorted(fits, key=lambda each: each.running)
    first = by_load[0]
    best = max(each.prefixes.match(blocks) for each in by_load)
    preferred = next(each for each in by_load if each.prefixes.match(blocks) == best)
    enough = best > 0 and 2 * best >= count
    return preferred.name if enough and preferred.running - first.running <= 4 else first.name


def random_fleet(seed: int, replicas: int, blocks: int) -> str:
    """Draw a fleet in which loads tie and the limits of the docstring are met exactly, now and then."""
    draw = random.Random(seed)
    rows = []
    for _ in range(replicas):
        state = draw.choice(["ready"] * 6 + ["starting", "draining", "dead"])
        running = draw.choice([0, 1, 1, 3, 4, 5, 6, 9, 16])
        seen = draw.choice(["*", f"+{draw.randint(0, blocks)}", f"+{(blocks + 1) // 2}", f"+{blocks}", f"-{blocks}"])
        rows.append(f"{state} {running}/{draw.choice([16, 16, running, running + 1])} {seen}")
    return ", ".join(rows)
