"""Collectives on a ring: each rank only sends to the next one and receives from the one before it."""

import mlx.core as mx

from .group import Group


def reduce_scatter(x: mx.array, group: Group) -> mx.array:
    """Return this rank's chunk of the sum of all ranks' arrays.

    The first axis is divided into `group.size` equal chunks. Rank r returns chunk r, summed over the ranks. Each rank
    makes size - 1 steps. In each it sends one chunk to its right neighbor and receives one from its left, so that it
    sends (size - 1) / size of x in total. Sums are taken in the dtype of x.

    Args:
        x: size * N.., the same shape and dtype on every rank. It is not changed.
        group: the ranks. Only `send` and `receive` are used. Either may wait for the other rank's call.

    Returns:
        N.., in the dtype of x. With a single rank, x itself.

    Raises:
        ValueError: x has no axis, or its first axis is not a multiple of the number of ranks.
    """
    raise NotImplementedError("6.1.1 Reduce-scatter on a ring")


def all_gather(x: mx.array, group: Group) -> mx.array:
    """Return all ranks' arrays, concatenated by rank along the first axis.

    Each rank makes size - 1 steps. In each it sends one array of the shape of x to its right neighbor and receives one
    from its left.

    Args:
        x: N.., the same shape and dtype on every rank, with at least one axis.
        group: the ranks. Only `send` and `receive` are used. Either may wait for the other rank's call.

    Returns:
        size * N.., the same on every rank, in the dtype of x.

    Raises:
        ValueError: x has no axis.
    """
    raise NotImplementedError("6.1.2 All-gather on a ring")


def all_reduce(x: mx.array, group: Group) -> mx.array:
    """Return the sum of all ranks' arrays, on every rank: a reduce-scatter, then an all-gather.

    Args:
        x: any shape, the same shape and dtype on every rank.
        group: the ranks.

    Returns:
        The shape and dtype of x; every rank has the same bits.
    """
    flat = mx.pad(mx.flatten(x), (0, -x.size % group.size))  # equal chunks
    return all_gather(reduce_scatter(flat, group), group)[: x.size].reshape(x.shape)
