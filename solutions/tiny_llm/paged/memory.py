"""Which pages each request has: block tables, and who is let in while there is room."""

from typing import Protocol

import mlx.core as mx

from ..serving.request import Chunk, Request
from .pool import PagePool


class Storage(Protocol):
    """What holds the numbers: `PagedArrays`, or another with the same attributes."""

    page: int  # tokens in a page
    pages: int

    def attend(
        self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk], tables: list[list[int]]
    ) -> mx.array:
        """As `PagedArrays.attend`."""


class PagedMemory:
    """A `Memory` in which each request has a list of pages, its block table: position p is in
    tables[request][p // page], at p % page."""

    pool: PagePool
    storage: Storage
    tables: dict[Request, list[int]]

    def __init__(self, storage: Storage, pool: PagePool | None = None) -> None:
        """Begin with no requests.

        Args:
            storage: where keys and values are.
            pool: of storage.pages pages; None for a new one.
        """
        self.storage = storage
        self.pool = PagePool(storage.pages) if pool is None else pool
        self.tables = {}

    def check(self, request: Request) -> None:
        """Refuse what would not fit if it were the only request.

        Raises:
            ValueError: all pages together have fewer places than the prompt and max_tokens need; the message says how
                many tokens there could be, and for how many there is room.
        """
        prompt, new, room = len(request.prompt), request.max_tokens, self.pool.pages * self.storage.page
        if prompt + new > room:
            words = f"a prompt of {prompt} tokens and {new} new ones are {prompt + new} tokens"
            raise ValueError(f"{words}, but there is room for {room} tokens in all")

    def begin(self, request: Request) -> bool:
        """Let a request in, with pages for all tokens that it has now, if enough are left for the others to grow.

        Args:
            request: is not here. Its `read` becomes 0.

        Returns:
            Whether it is let in: once it has its pages, one for each request that is here already must still be free.
            If not, nothing has changed.
        """
        needed = self.pages_for(request.length)
        if needed + len(self.tables) > self.pool.free:
            return False
        self.tables[request] = self.pool.take(needed)
        request.read = 0
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """Have pages for so many tokens behind those that were read.

        Args:
            request: is here.
            count: how many tokens.

        Returns:
            Whether there is room now. If not, nothing has changed.
        """
        table = self.tables[request]
        missing = max(0, self.pages_for(request.read + count) - len(table))
        if missing > self.pool.free:
            return False
        table += self.pool.take(missing)
        return True

    def shorten(self, request: Request, length: int) -> None:
        """Keep the pages in which the first tokens are, and give back all others.

        Args:
            request: is here.
            length: how many tokens; of the last page that is kept, some may be needed no more.
        """
        table, kept = self.tables[request], self.pages_for(length)
        self.pool.drop(table[kept:])
        del table[kept:]

    def release(self, request: Request) -> None:
        """Let a request go, and give back all its pages."""
        self.pool.drop(self.tables.pop(request))

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """As `Memory`."""
        return self.storage.attend(layer, query, key, value, chunks, [self.tables[chunk.request] for chunk in chunks])

    def pages_for(self, tokens: int) -> int:
        """How many pages so many tokens need: the last one may be full in part."""
        return -(-tokens // self.storage.page)
