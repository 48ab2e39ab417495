"""The mask of a sliding window: a query sees the last few keys, and the very first."""

import mlx.core as mx


def window_mask(L: int, S: int, window: int | None, sinks: int = 0, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Allow each query itself, the window - 1 positions before it, and the first positions of the text.

    The queries are the last L of S positions: query i is at position i + S - L. At position p it sees the keys j with
    p - window < j <= p, and those with j < sinks and j <= p.

    Args:
        L: number of queries, at most S.
        S: number of keys.
        window: W, how many keys a query sees, its own among them, besides the sinks; None means all up to its own.
        sinks: how many keys at the beginning are seen from everywhere behind them.
        dtype: of the mask.

    Returns:
        L x S: 0 where the query may look, -inf where it may not.

    Raises:
        ValueError: L > S, window is less than 1, or sinks is less than 0. The message says the numbers.

    Source: Child et al. 2019 and Beltagy et al. 2020, windows; Xiao et al. 2023, sinks.
    """
    raise NotImplementedError("4.3.1 The mask of a window")
