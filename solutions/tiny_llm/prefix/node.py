"""The nodes of a radix tree. Nothing here is yours to write."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class RadixNode:
    """A run of tokens in whole pages, and the nodes that continue it."""

    tokens: list[int]  # as many as fill its pages
    pages: list[int]  # the pages of their keys and values; at least one, except in the root
    last_access: int = 0  # the tree's clock when a lookup last passed through it
    children: dict[tuple[int, ...], "RadixNode"] = field(default_factory=dict)  # by the tokens of their first page


def descendants(node: RadixNode) -> Iterator[tuple[RadixNode, RadixNode]]:
    """Yield all nodes below one, each as (parent, node), parents first. The tree must not change meanwhile."""
    waiting = [node]
    while waiting:
        parent = waiting.pop()
        for child in parent.children.values():
            yield parent, child
            waiting.append(child)


def subtree_pages(root: RadixNode) -> list[int]:
    """Return all pages of a tree."""
    return [page for _, node in descendants(root) for page in node.pages]
