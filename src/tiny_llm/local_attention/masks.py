"""The mask of a sliding window with attention sinks."""

import mlx.core as mx


def window_mask(L: int, S: int, window: int | None, sinks: int = 0, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Return the additive mask that leaves each query its own key, the window - 1 keys before it, and the sinks.

    The queries are the last L of S positions: query i is at position i + S - L. At position p it sees the keys j with
    p - window < j <= p, and those with j < sinks and j <= p.

    Args:
        L: number of queries, at most S.
        S: number of keys.
        window: W, the number of keys a query sees in addition to the sinks, its own included; None means all up to its
            own.
        sinks: the number of first keys that every later query sees.
        dtype: of the mask.

    Returns:
        L x S: 0 where the query sees the key, -inf where it does not.

    Raises:
        ValueError: L > S, window is less than 1, or sinks is less than 0. The message states the numbers.

    Source: Child et al. 2019 and Beltagy et al. 2020, windows; Xiao et al. 2023, sinks.
    """
    raise NotImplementedError("4.3.1 The mask of a window")
