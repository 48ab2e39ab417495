"""The state of a replica as the router sees it: health, load, and prefixes. Nothing here is yours to write."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

BLOCK = 64  # characters of a prompt that share one hash: about 16 tokens
REMEMBERED = 4096  # hashes per replica

State = Literal["starting", "ready", "draining", "dead"]


def prefix_blocks(prompt: str, size: int = BLOCK) -> list[int]:
    """Return a hash for each whole block of a prompt, in order; it covers the block and all before it.

    Two prompts have as many leading hashes in common as whole blocks.
    """
    hashes, previous = list[int](), b""
    for at in range(0, len(prompt) - size + 1, size):
        part = prompt[at : at + size].encode(errors="surrogatepass")
        previous = hashlib.blake2b(previous + part, digest_size=8).digest()
        hashes.append(int.from_bytes(previous))
    return hashes


class Prefixes:
    """The prompt blocks that a replica was sent last: a guess at what its prefix cache has, limited in size."""

    def __init__(self, most: int = REMEMBERED) -> None:
        """Create an empty one that remembers at most `most` hashes, the latest ones."""
        self._most, self._seen = most, OrderedDict[int, None]()

    def match(self, blocks: Sequence[int]) -> int:
        """Return how many leading blocks were seen."""
        return next((count for count, block in enumerate(blocks) if block not in self._seen), len(blocks))

    def add(self, blocks: Sequence[int]) -> None:
        """Remember the blocks of a prompt; forget the oldest ones."""
        for block in reversed(blocks):  # a prefix is newer than what follows it, and is forgotten later
            self._seen[block] = None
            self._seen.move_to_end(block)
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)

    def clear(self) -> None:
        """Forget everything: the replica's cache is gone."""
        self._seen.clear()


@dataclass(eq=False)
class Replica:
    """A server that a router may choose. `running` counts the requests that were sent to it and have not ended."""

    name: str
    state: State = "starting"  # only "ready" gets new requests
    running: int = 0
    limit: int = 16  # the maximum of `running`
    prefixes: Prefixes = field(default_factory=Prefixes)
