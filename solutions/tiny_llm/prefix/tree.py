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
        self.pool, self.page = pool, page
        self.root, self.calls = Edge([], []), 0

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
        return self._walk(tokens)[1]

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
        if len(tokens) != self.page * len(pages):
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self.page}")
        last, found = self._walk(tokens)
        new, rest = list(pages[len(found) :]), list(tokens[self.page * len(found) :])
        if new:
            self.pool.hold(new)
            last.children[tuple(rest[: self.page])] = Edge(rest, new, self.calls)
        return found + new

    def _walk(self, tokens: Sequence[int]) -> tuple[Edge, list[int]]:
        """Go as far as the text is known: the edge behind which it goes on, and the pages on the way."""
        self.calls += 1
        edge, found, text = self.root, list[int](), self._by_page(tokens)
        while text and (child := edge.children.get(text[0])):
            alike = _alike(text, self._by_page(child.tokens))
            if alike < len(child.pages):
                self._cut(child, alike)
            child.used = self.calls
            found += child.pages
            edge, text = child, text[alike:]
        return edge, found

    def _by_page(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """The tokens of each page; not those at the end that fill none."""
        return [tuple(tokens[at : at + self.page]) for at in range(0, len(tokens) - self.page + 1, self.page)]

    def _cut(self, edge: Edge, count: int) -> None:
        """Leave an edge its first pages, and hang another one with the rest below it."""
        at = self.page * count
        rest = Edge(edge.tokens[at:], edge.pages[count:], edge.used, edge.children)
        edge.tokens, edge.pages = edge.tokens[:at], edge.pages[:count]
        edge.children = {tuple(rest.tokens[: self.page]): rest}


def _alike(one: list[tuple[int, ...]], other: list[tuple[int, ...]]) -> int:
    """With how many equal pages both begin."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
