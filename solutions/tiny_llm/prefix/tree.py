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
        self.pool, self.page_size = pool, page_size
        self.root, self.clock = RadixNode([], []), 0

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
        return self._walk(tokens)[1]

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
        if len(tokens) != self.page_size * len(pages):
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self.page_size}")
        last, found = self._walk(tokens)
        new, rest = list(pages[len(found) :]), list(tokens[self.page_size * len(found) :])
        if new:
            self.pool.retain(new)
            last.children[tuple(rest[: self.page_size])] = RadixNode(rest, new, self.clock)
        return found + new

    def _walk(self, tokens: Sequence[int]) -> tuple[RadixNode, list[int]]:
        """Follow a sequence as far as it matches; return the last node on its path, and the pages along it."""
        self.clock += 1
        node, found, text = self.root, list[int](), self._by_page(tokens)
        while text and (child := node.children.get(text[0])):
            alike = _common_prefix_length(text, self._by_page(child.tokens))
            if alike < len(child.pages):
                self._split(child, alike)
            child.last_access = self.clock
            found += child.pages
            node, text = child, text[alike:]
        return node, found

    def _by_page(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the tokens of each full page, dropping an incomplete last one."""
        size = self.page_size
        return [tuple(tokens[at : at + size]) for at in range(0, len(tokens) - size + 1, size)]

    def _split(self, node: RadixNode, count: int) -> None:
        """Keep a node's first `count` pages, and move the rest into a new child."""
        at = self.page_size * count
        rest = RadixNode(node.tokens[at:], node.pages[count:], node.last_access, node.children)
        node.tokens, node.pages = node.tokens[:at], node.pages[:count]
        node.children = {tuple(rest.tokens[: self.page_size]): rest}


def _common_prefix_length(one: list[tuple[int, ...]], other: list[tuple[int, ...]]) -> int:
    """Return how many pages are equal at the beginning of both."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
