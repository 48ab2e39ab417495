"""Eviction from a radix tree, least recently used first."""

from .tree import RadixTree


def evict(tree: RadixTree, count: int) -> list[int]:
    """Evict up to `count` pages from a tree, the least recently used first.

    A page can be evicted only if the tree holds its only reference, and if it is the last page of a leaf. The next one
    to go is always that of the leaf with the lowest `last_access`. A node that has lost all its pages is removed, and
    its parent may be the next leaf.

    Args:
        tree: is modified.
        count: how many pages to evict; none if it is 0 or less.

    Returns:
        The evicted pages, in that order: `count` of them, or fewer if no more can be evicted.
    """
    raise NotImplementedError("3.5.2 Eviction")
