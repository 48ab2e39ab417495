"""What a prefix cache should know, as a plain dictionary of all beginnings of texts, page by page.

It has no edges but those that it is asked for: a beginning either ends an edge or not.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Text = tuple[int, ...]
# What ends where an edge ends: its pages, and the call in which it was used.
Edges = dict[Text, tuple[tuple[int, ...], int]]


class Beginnings:
    """The pages of all texts, by the text up to the end of each page."""

    def __init__(self, page: int) -> None:
        self.page, self.calls = page, 0
        self.pages: dict[Text, int] = {}
        self.used: dict[Text, int] = {}
        self.ends: set[Text] = set()  # where edges end

    def before(self, text: Text) -> Text:
        """The same without its last page."""
        return text[: len(text) - self.page]

    def match(self, tokens: Sequence[int]) -> list[int]:
        """As `RadixTree.match`."""
        self.calls += 1
        found: list[int] = []
        for number in range(len(tokens) // self.page):
            text = tuple(tokens[: self.page * (number + 1)])
            if text not in self.pages:
                break
            self.used[text] = self.calls
            found.append(self.pages[text])
        if found:
            self.ends.add(tuple(tokens[: self.page * len(found)]))
        return found

    def insert(self, tokens: Sequence[int], pages: Sequence[int]) -> list[int]:
        """As `RadixTree.insert`; nobody is told of the pages that are taken."""
        found = self.match(tokens)
        for number in range(len(found), len(pages)):
            text = tuple(tokens[: self.page * (number + 1)])
            self.pages[text], self.used[text] = pages[number], self.calls
        if pages:
            self.ends.add(tuple(tokens))
        return [self.pages[tuple(tokens[: self.page * (number + 1)])] for number in range(len(pages))]

    def evict(self, count: int, holders: Callable[[int], int]) -> list[int]:
        """As `evict`; nobody is told of the pages that are dropped."""
        gone: list[int] = []
        while len(gone) < count:
            inner = {self.before(text) for text in self.pages}
            free = [text for text, page in self.pages.items() if text not in inner and holders(page) == 1]
            if not free:
                break
            text = min(free, key=lambda one: self.used[one])
            gone.append(self.pages.pop(text))
            del self.used[text]
            self.ends.discard(text)
            self.ends |= {self.before(text)} - {()}
        return gone

    def edges(self) -> Edges:
        """The edges, by the text up to their ends."""
        found = {}
        for end in self.ends:
            pages, text = [self.pages[end]], self.before(end)
            while text and text not in self.ends:
                pages.insert(0, self.pages[text])
                text = self.before(text)
            found[end] = tuple(pages), self.used[end]
        return found


def edges_of(tree: Any) -> Edges:
    """The edges of a radix tree.

    Raises:
        ValueError: an edge is not what an edge should be; the message says which.
    """
    found: Edges = {}
    waiting = [((), tree.root)]
    while waiting:
        before, parent = waiting.pop()
        for first, edge in parent.children.items():
            tokens, pages = tuple(edge.tokens), tuple(edge.pages)
            text = (*before, *tokens)
            named = f"the edge [{' '.join(map(str, tokens))}] behind [{' '.join(map(str, before))}]"
            if not pages:
                raise ValueError(f"{named} has no pages")
            if len(tokens) != tree.page * len(pages):
                raise ValueError(f"{named} has {len(tokens)} tokens for {len(pages)} pages of {tree.page}")
            if tuple(first) != tokens[: tree.page]:
                raise ValueError(f"{named} is found by [{' '.join(map(str, first))}], which is not its first page")
            if text in found:
                raise ValueError(f"two edges end with [{' '.join(map(str, text))}]")
            found[text] = pages, edge.used
            waiting.append((text, edge))
    return found


def told(edges: Edges) -> list[str]:
    """Each edge in words, in the order of their texts."""
    return [
        f"[{' '.join(map(str, text))}] ends pages {' '.join(map(str, pages))}, used {used}"
        for text, (pages, used) in sorted(edges.items())
    ]


def numbers(edges: Edges) -> list[int]:
    """The same for a probe: nothing but numbers."""
    found = []
    for text, (pages, used) in sorted(edges.items()):
        found += [-len(text), *text, -len(pages), *pages, used]
    return found


def cut(tokens: Iterable[int], page: int) -> list[int]:
    """The tokens that fill pages."""
    tokens = list(tokens)
    return tokens[: len(tokens) // page * page]
