"""A prefix cache as a plain dictionary of all prefixes, page by page.

It has nodes only on request: a prefix is or is not the end of a node.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Text = tuple[int, ...]
# for each node's end: its pages, and its last access
Edges = dict[Text, tuple[tuple[int, ...], int]]


class Beginnings:
    """The pages of all sequences, keyed by the prefix up to the end of each page."""

    def __init__(self, page: int) -> None:
        self.page_size, self.calls = page, 0
        self.pages: dict[Text, int] = {}
        self.used: dict[Text, int] = {}
        self.ends: set[Text] = set()  # where nodes end

    def before(self, text: Text) -> Text:
        """Return the prefix without its last page."""
        return text[: len(text) - self.page_size]

    def match(self, tokens: Sequence[int]) -> list[int]:
        """The same as `RadixTree.match`."""
        self.calls += 1
        found: list[int] = []
        for number in range(len(tokens) // self.page_size):
            text = tuple(tokens[: self.page_size * (number + 1)])
            if text not in self.pages:
                break
            self.used[text] = self.calls
            found.append(self.pages[text])
        if found:
            self.ends.add(tuple(tokens[: self.page_size * len(found)]))
        return found

    def insert(self, tokens: Sequence[int], pages: Sequence[int]) -> list[int]:
        """The same as `RadixTree.insert`, without reference counts."""
        found = self.match(tokens)
        for number in range(len(found), len(pages)):
            text = tuple(tokens[: self.page_size * (number + 1)])
            self.pages[text], self.used[text] = pages[number], self.calls
        if pages:
            self.ends.add(tuple(tokens))
        return [self.pages[tuple(tokens[: self.page_size * (number + 1)])] for number in range(len(pages))]

    def evict(self, count: int, holders: Callable[[int], int]) -> list[int]:
        """The same as `evict`, without reference counts."""
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
        """Return the nodes, by the prefix up to their ends."""
        found = {}
        for end in self.ends:
            pages, text = [self.pages[end]], self.before(end)
            while text and text not in self.ends:
                pages.insert(0, self.pages[text])
                text = self.before(text)
            found[end] = tuple(pages), self.used[end]
        return found


def edges_of(tree: Any) -> Edges:
    """Return the nodes of a radix tree.

    Raises:
        ValueError: a node is invalid; the message says how.
    """
    found: Edges = {}
    waiting = [((), tree.root)]
    while waiting:
        before, parent = waiting.pop()
        for first, node in parent.children.items():
            tokens, pages = tuple(node.tokens), tuple(node.pages)
            text = (*before, *tokens)
            named = f"the node [{' '.join(map(str, tokens))}] after [{' '.join(map(str, before))}]"
            if not pages:
                raise ValueError(f"{named} has no pages")
            if len(tokens) != tree.page_size * len(pages):
                raise ValueError(f"{named} has {len(tokens)} tokens for {len(pages)} pages of {tree.page_size}")
            if tuple(first) != tokens[: tree.page_size]:
                raise ValueError(f"{named} has the key [{' '.join(map(str, first))}], which is not its first page")
            if text in found:
                raise ValueError(f"two nodes end with [{' '.join(map(str, text))}]")
            found[text] = pages, node.last_access
            waiting.append((text, node))
    return found


def told(edges: Edges) -> list[str]:
    """Describe each node, in order of their sequences."""
    return [
        f"[{' '.join(map(str, text))}] ends pages {' '.join(map(str, pages))}, last access {used}"
        for text, (pages, used) in sorted(edges.items())
    ]


def numbers(edges: Edges) -> list[int]:
    """The same for a probe, in numbers only."""
    found = []
    for text, (pages, used) in sorted(edges.items()):
        found += [-len(text), *text, -len(pages), *pages, used]
    return found


def cut(tokens: Iterable[int], page: int) -> list[int]:
    """Return the tokens that fill whole pages."""
    tokens = list(tokens)
    return tokens[: len(tokens) // page * page]
