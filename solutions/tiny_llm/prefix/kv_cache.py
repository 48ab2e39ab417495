"""A paged KV cache with prefix caching: a request reuses the pages of earlier ones that begin with the same tokens."""

from ..paged.kv_cache import PagedKVCache, Storage
from ..paged.pool import PagePool
from ..serving.request import Request
from .eviction import evict
from .tree import RadixTree


class PrefixKVCache(PagedKVCache):
    """A `PagedKVCache` with a radix tree of all full computed pages, which keeps them until others need the pages."""

    tree: RadixTree
    queried_tokens: int  # tokens of all admitted requests, counted at each admission
    hit_tokens: int  # how many of those were cached

    def __init__(self, storage: Storage, pool: PagePool | None = None) -> None:
        """Create a cache with no requests and an empty tree.

        Args:
            storage, pool: as for `PagedKVCache`.
        """
        super().__init__(storage, pool)
        self.tree = RadixTree(self.pool, storage.page_size)
        self.queried_tokens = self.hit_tokens = 0

    @property
    def hit_rate(self) -> float:
        """The fraction of the queried tokens that was cached: 0 before any was queried."""
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0

    def admit(self, request: Request) -> bool:
        """Admit a request, reusing its cached prefix pages and allocating new ones for all its other tokens.

        First the full computed pages of all admitted requests are inserted into the tree. Where it has the same tokens
        in other pages, the requests' block tables take these pages, and release their own. Then the request's tokens
        are matched, except the last one: its logits are needed, so at least one token stays uncomputed. If fewer pages
        are free than `PagedKVCache.admit` would require, less the matched ones, the tree evicts the missing number, or
        as many as it can.

        Args:
            request: is not admitted. Its `num_computed_tokens` becomes the number of tokens in matched pages, which are
                never written again.

        Returns:
            Whether it is admitted. If not, only the tree has changed, and nothing is counted.
        """
        for other in self.block_tables:
            self._share(other)
        found = self.tree.match(request.tokens(0, request.num_tokens - 1))
        self.pool.retain(found)  # before any page is evicted
        needed = self.pages_for(request.num_tokens) - len(found)
        if not self._free(needed + len(self.block_tables)):
            self.pool.release(found)
            return False
        self.block_tables[request] = found + self.pool.allocate(needed)
        request.num_computed_tokens = len(found) * self.storage.page_size
        self.queried_tokens += request.num_tokens
        self.hit_tokens += request.num_computed_tokens
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """As `PagedKVCache`, after the tree has evicted as many pages as are missing, or as many as it can."""
        self._free(self.pages_for(request.num_computed_tokens + count) - len(self.block_tables[request]))
        return super().reserve(request, count)

    def release(self, request: Request) -> None:
        """Remove a request. Its full computed pages stay in the tree; all others are released."""
        self._share(request)
        super().release(request)

    def _share(self, request: Request) -> None:
        """Insert a request's full computed pages into the tree, and switch it to those that the tree has already."""
        block_table, whole = self.block_tables[request], request.num_computed_tokens // self.storage.page_size
        known = self.tree.insert(request.tokens(0, whole * self.storage.page_size), block_table[:whole])
        self.pool.retain(known)
        self.pool.release(block_table[:whole])
        block_table[:whole] = known

    def _free(self, count: int) -> bool:
        """Evict until `count` pages are free; return whether that succeeded."""
        evict(self.tree, count - self.pool.num_free)
        return self.pool.num_free >= count
