"""What a radix tree is made of. Nothing here is yours to write."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Edge:
    """A piece of text, in whole pages, and what has followed it."""

    tokens: list[int]  # as many as its pages have room for
    pages: list[int]  # in which their keys and values are; at least one, but for the root
    used: int = 0  # in which call of the tree a text last went through it
    children: dict[tuple[int, ...], "Edge"] = field(default_factory=dict)  # by the tokens of their first page


def below(edge: Edge) -> Iterator[tuple[Edge, Edge]]:
    """All edges below one, each behind the one that it hangs from, its parent. No edge may come or go meanwhile."""
    waiting = [edge]
    while waiting:
        parent = waiting.pop()
        for child in parent.children.values():
            yield parent, child
            waiting.append(child)


def pages_below(root: Edge) -> list[int]:
    """All pages of a tree."""
    return [page for _, edge in below(root) for page in edge.pages]
