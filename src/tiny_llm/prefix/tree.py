"""A radix tree of token sequences: sequences with a common prefix share its nodes."""

from collections.abc import Sequence

from ..paged.pool import PagePool
from .node import RadixNode


class RadixTree:
    """Maps token sequences to the pages of their keys and values. It holds one reference to each of its pages."""

    pool: PagePool
    page_size: int  # tokens per page
    root: RadixNode  # has no tokens and no pages
    clock: int  # how often match and insert were called: the source of a node's `last_access`

    def __init__(self, pool: PagePool, page_size: int) -> None:
        """Create an empty tree.

        Args:
            pool: the pool of its pages.
            page_size: tokens per page.
        """
        raise NotImplementedError("3.5.1 The radix tree")

    def match(self, tokens: Sequence[int]) -> list[int]:
        """Find the longest cached prefix of a sequence.

        The nodes on its path are accessed in this call, the first one being call 1. A node of which only the first
        pages match is split after them, and its second half does not count as accessed.

        Args:
            tokens: a sequence of any length.

        Returns:
            The pages of the longest prefix that is here, whole pages only, in a new list. A caller that keeps them must
            retain them.
        """
        raise NotImplementedError("3.5.1 The radix tree")

    def insert(self, tokens: Sequence[int], pages: Sequence[int]) -> list[int]:
        """Insert a sequence. The part that is not here yet becomes one new node.

        Nodes are accessed and split as by `match`. The tree retains the new node's pages. It does not retain pages
        whose tokens are here already, in the same pages or in others.

        Args:
            tokens: as many as fill the pages.
            pages: hold the keys and values of these tokens; none of them is free.

        Returns:
            The pages in which the tree has these tokens now, as many as `pages`, in a new list.

        Raises:
            ValueError: the tokens do not fill the pages; the message gives the number of tokens and that of pages.
                Nothing has changed.
        """
        raise NotImplementedError("3.5.1 The radix tree")
