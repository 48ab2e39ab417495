"""Several adapters in one batch: each row is multiplied by its own adapter's A and B."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from ..basics import linear


def batched_update(
    x: mx.array, owners: Sequence[int], a: Sequence[mx.array], b: Sequence[mx.array], scales: Sequence[float]
) -> mx.array:
    """Return each row's update by its own adapter: scale * (x A.T) B.T, two products per adapter that has rows.

    Letters: T rows, the tokens of all requests; I inputs, O outputs; adapter k has the rank r_k.

    Args:
        x: T x I, at least one row.
        owners: T, the adapter of each row, from 0; -1 for none.
        a: one matrix per adapter, r_k x I. Ranks may differ.
        b: one matrix per adapter, O x r_k; at least one adapter.
        scales: one factor per adapter.

    Returns:
        T x O, in x's dtype, in the order of the rows; zeros where the owner is -1. The matrices of an adapter without
        rows are never read: even a NaN there changes nothing. No matrix is copied per row. The arguments are not
        changed.

    Raises:
        ValueError: an owner is not in -1 .. number of adapters - 1, or there is not one owner per row. The message
            states the owner and the number of adapters, or both lengths.

    Source: Chen et al. 2023 (Punica); Sheng et al. 2023 (S-LoRA).
    """
    if len(owners) != len(x):
        raise ValueError(f"x has {len(x)} rows, but there are {len(owners)} owners")
    if wrong := [owner for owner in owners if not -1 <= owner < len(a)]:
        raise ValueError(f"a row's owner is {wrong[0]}, but there are {len(a)} adapters")
    order = np.argsort(owners, kind="stable")  # the rows, sorted by owner
    results, first = [], 0
    for owner, count in zip(*np.unique(owners, return_counts=True), strict=True):
        rows = x[mx.array(order[first : first + count])]  # count x I
        first += int(count)
        if owner < 0:
            results.append(mx.zeros((count, b[0].shape[0]), x.dtype))
        else:
            update = scales[owner] * linear(linear(rows, a[owner]), b[owner])  # count x O
            results.append(update.astype(x.dtype))
    return mx.concatenate(results)[mx.array(np.argsort(order))]  # the inverse permutation
