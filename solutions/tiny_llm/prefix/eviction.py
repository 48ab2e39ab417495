"""Which pages of a radix tree go first when others need the room."""

from .edge import below
from .tree import RadixTree


def evict(tree: RadixTree, count: int) -> list[int]:
    """Drop pages of a tree, those first that have not been used for the longest time.

    A page goes only if the tree is its one holder, and if nothing stands behind it any more: the last page of an edge
    without children. Of all such pages the next one to go is that of the edge whose `used` is lowest. An edge that has
    lost all its pages is gone, and what it hung from may be next.

    Args:
        tree: loses them.
        count: how many are wanted; none if it is 0 or less.

    Returns:
        The pages that it has lost, in that order: as many as are wanted, or fewer, if no more can go.
    """
    gone: list[int] = []
    while len(gone) < count:
        ends = [(p, e) for p, e in below(tree.root) if not e.children and tree.pool.holders(e.pages[-1]) == 1]
        if not ends:
            break
        parent, edge = min(ends, key=lambda pair: pair[1].used)
        first = tuple(edge.tokens[: tree.page])
        while edge.pages and len(gone) < count and tree.pool.holders(edge.pages[-1]) == 1:
            gone.append(edge.pages.pop())
            tree.pool.drop(gone[-1:])
        edge.tokens = edge.tokens[: tree.page * len(edge.pages)]
        if not edge.pages:
            del parent.children[first]
    return gone
