"""A radix tree: texts that begin alike share the edges of what is alike."""

from collections.abc import Sequence

from ..paged.pool import PagePool
from .edge import Edge


class RadixTree:
    """Which pages hold the keys and values of which text. It is one holder of each page that it has."""

    pool: PagePool
    page: int  # tokens in a page
    root: Edge  # has no tokens and no pages; every text begins below it
    calls: int  # of match and insert, so far: what an edge's `used` is taken from

    def __init__(self, pool: PagePool, page: int) -> None:
        """Begin with the root alone.

        Args:
            pool: whose pages they are.
            page: how many tokens are in one.
        """
        raise NotImplementedError("3.5.1 The radix tree")

    def match(self, tokens: Sequence[int]) -> list[int]:
        """Find how far a text is known.

        The edges on its way count as used in this call, the first one being call 1. An edge of which only the first
        pages are on its way is cut in two behind them, and its second half was not used.

        Args:
            tokens: any number.

        Returns:
            The pages of the longest beginning of the text that is here, whole pages only, in a new list. Who wants to
            keep them must hold them.
        """
        raise NotImplementedError("3.5.1 The radix tree")

    def insert(self, tokens: Sequence[int], pages: Sequence[int]) -> list[int]:
        """Keep a text. What of it is not here yet becomes one new edge.

        Edges count as used and are cut as by `match`. Of the new edge's pages the tree becomes one holder more. Of
        pages whose tokens are here already, in the same pages or in others, it does not.

        Args:
            tokens: fill the pages.
            pages: hold the keys and values of these tokens; somebody holds them.

        Returns:
            The pages in which the tree has these tokens now, as many as `pages`, in a new list.

        Raises:
            ValueError: the tokens do not fill the pages; the message says both numbers. Nothing has changed.
        """
        raise NotImplementedError("3.5.1 The radix tree")
