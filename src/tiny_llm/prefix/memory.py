"""Paged memory that remembers: what has been read for one request is there for the next that begins alike."""

from ..paged.memory import PagedMemory, Storage
from ..paged.pool import PagePool
from ..serving.request import Request
from .eviction import evict
from .tree import RadixTree


class PrefixMemory(PagedMemory):
    """A `PagedMemory` with a radix tree of all whole pages that were read. Room that nobody needs is the tree's."""

    tree: RadixTree
    asked: int  # tokens of all requests that were let in, each time that one was
    hit: int  # how many of those were found

    def __init__(self, storage: Storage, pool: PagePool | None = None) -> None:
        """Begin with no requests and an empty tree.

        Args:
            storage, pool: as for `PagedMemory`.
        """
        raise NotImplementedError("3.5.3 Memory that remembers")

    @property
    def hit_rate(self) -> float:
        """What share of the tokens that were asked for was found: 0 before there were any."""
        raise NotImplementedError("3.5.3 Memory that remembers")

    def begin(self, request: Request) -> bool:
        """Let a request in with the pages that are found, and new ones for all its other tokens.

        First the tree is given the whole pages that those who are here have read. Where it has the same tokens in other
        pages, their tables take these, and drop their own. Then the request's text is looked for, but never its last
        token: it needs logits, so at least one stays unread. If fewer pages are free than `PagedMemory.begin` would ask
        for, less those that were found, the tree loses as many as are lacking, or all that can go.

        Args:
            request: is not here. Its `read` becomes the number of tokens that were found, and nobody writes into their
                pages any more.

        Returns:
            Whether it is let in. If not, nothing but the tree has changed, and nothing is counted.
        """
        raise NotImplementedError("3.5.3 Memory that remembers")

    def reserve(self, request: Request, count: int) -> bool:
        """As `PagedMemory`, once the tree has lost as many pages as are lacking, or all that can go."""
        raise NotImplementedError("3.5.3 Memory that remembers")

    def release(self, request: Request) -> None:
        """Let a request go. The tree keeps the pages that are full of tokens that were read; all others are dropped."""
        raise NotImplementedError("3.5.3 Memory that remembers")
