"""Eviction from a radix tree, least recently used first."""

from .node import descendants
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
    gone: list[int] = []
    while len(gone) < count:
        ends = [(p, e) for p, e in descendants(tree.root) if not e.children and tree.pool.ref_count(e.pages[-1]) == 1]
        if not ends:
            break
        parent, node = min(ends, key=lambda pair: pair[1].last_access)
        first = tuple(node.tokens[: tree.page_size])
        while node.pages and len(gone) < count and tree.pool.ref_count(node.pages[-1]) == 1:
            gone.append(node.pages.pop())
            tree.pool.release(gone[-1:])
        node.tokens = node.tokens[: tree.page_size * len(node.pages)]
        if not node.pages:
            del parent.children[first]
    return gone
