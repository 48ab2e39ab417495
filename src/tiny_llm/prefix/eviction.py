"""Which pages of a radix tree go first when others need the room."""

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
    raise NotImplementedError("3.5.2 What goes first")
