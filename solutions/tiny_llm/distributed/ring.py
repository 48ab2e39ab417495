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
    if x.ndim == 0 or x.shape[0] % group.size:
        raise ValueError(f"x has shape {x.shape}: expected a first axis that is a multiple of {group.size}, the ranks")
    chunks = mx.split(x, group.size)
    total = chunks[(group.rank - 1) % group.size]
    for step in range(2, group.size + 1):
        total = _shift(total, group) + chunks[(group.rank - step) % group.size]
    return total


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
    if x.ndim == 0:
        raise ValueError("x is a single number: expected at least one axis")
    parts = [x] * group.size
    for step in range(1, group.size):
        parts[(group.rank - step) % group.size] = _shift(parts[(group.rank - step + 1) % group.size], group)
    return mx.concatenate(parts)


def _shift(x: mx.array, group: Group) -> mx.array:
    """Send an array to the right, and return the one from the left.

    Odd ranks receive first: if all sent first, none would receive.
    """
    if group.rank % 2:
        received = group.receive(x.shape, x.dtype, group.left)
        group.send(x, group.right)
        return received
    group.send(x, group.right)
    return group.receive(x.shape, x.dtype, group.left)


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
