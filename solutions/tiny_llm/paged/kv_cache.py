"""A KV cache of block tables: which pages each request holds, and whether one more can be admitted."""

from typing import Protocol

import mlx.core as mx

from ..serving.request import Chunk, Request
from .pool import PagePool


class Storage(Protocol):
    """Stores the contents of pages: `PagedArrays`, or a class with the same attributes."""

    page_size: int  # tokens per page
    pages: int

    def attend(
        self,
        layer: int,
        query: mx.array,
        key: mx.array,
        value: mx.array,
        chunks: list[Chunk],
        block_tables: list[list[int]],
    ) -> mx.array:
        """As `PagedArrays.attend`."""


class PagedKVCache:
    """A `KVCacheManager` in which each request's block table lists its pages in order.

    Position p of a request is in the page block_tables[request][p // page_size], at offset p % page_size.
    """

    pool: PagePool
    storage: Storage
    block_tables: dict[Request, list[int]]

    def __init__(self, storage: Storage, pool: PagePool | None = None) -> None:
        """Create a cache with no requests.

        Args:
            storage: holds the keys and values.
            pool: of storage.pages pages; None for a new one.
        """
        self.storage = storage
        self.pool = PagePool(storage.pages) if pool is None else pool
        self.block_tables = {}

    def validate(self, request: Request) -> None:
        """Reject a request that would not fit even if it were the only one.

        Raises:
            ValueError: all pages together hold fewer tokens than the prompt and max_tokens; the message gives both
                numbers.
        """
        prompt, new, room = len(request.prompt), request.max_tokens, self.pool.pages * self.storage.page_size
        if prompt + new > room:
            words = f"a prompt of {prompt} tokens and {new} new ones are {prompt + new} tokens"
            raise ValueError(f"{words}, but there is room for {room} tokens in all")

    def admit(self, request: Request) -> bool:
        """Admit a request with pages for all its present tokens, if enough pages are left for the others to grow.

        Args:
            request: is not admitted. Its `num_computed_tokens` becomes 0.

        Returns:
            Whether it is admitted: after it has its pages, one for each request admitted before must still be free.
            If not, nothing has changed.
        """
        needed = self.pages_for(request.num_tokens)
        if needed + len(self.block_tables) > self.pool.num_free:
            return False
        self.block_tables[request] = self.pool.allocate(needed)
        request.num_computed_tokens = 0
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """Allocate the pages that `count` tokens after the computed ones need.

        Args:
            request: is admitted.
            count: how many tokens.

        Returns:
            Whether the request has these pages now. If not, nothing has changed.
        """
        block_table = self.block_tables[request]
        missing = max(0, self.pages_for(request.num_computed_tokens + count) - len(block_table))
        if missing > self.pool.num_free:
            return False
        block_table += self.pool.allocate(missing)
        return True

    def truncate(self, request: Request, length: int) -> None:
        """Keep the pages of the first `length` tokens, and release all others.

        Args:
            request: is admitted.
            length: how many tokens; the last page that is kept may be partly unused.
        """
        block_table, kept = self.block_tables[request], self.pages_for(length)
        self.pool.release(block_table[kept:])
        del block_table[kept:]

    def release(self, request: Request) -> None:
        """Remove a request, and release all its pages."""
        self.pool.release(self.block_tables.pop(request))

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """As `KVCacheManager`."""
        block_tables = [self.block_tables[chunk.request] for chunk in chunks]
        return self.storage.attend(layer, query, key, value, chunks, block_tables)

    def pages_for(self, tokens: int) -> int:
        """Return how many pages hold that many tokens; the last one may be partly filled."""
        return -(-tokens // self.storage.page_size)
