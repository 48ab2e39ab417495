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
        raise NotImplementedError("3.5.3 A KV cache with prefixes")

    @property
    def hit_rate(self) -> float:
        """The fraction of the queried tokens that was cached: 0 before any was queried."""
        raise NotImplementedError("3.5.3 A KV cache with prefixes")

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
        raise NotImplementedError("3.5.3 A KV cache with prefixes")

    def reserve(self, request: Request, count: int) -> bool:
        """As `PagedKVCache`, after the tree has evicted as many pages as are missing, or as many as it can."""
        raise NotImplementedError("3.5.3 A KV cache with prefixes")

    def release(self, request: Request) -> None:
        """Remove a request. Its full computed pages stay in the tree; all others are released."""
        raise NotImplementedError("3.5.3 A KV cache with prefixes")
