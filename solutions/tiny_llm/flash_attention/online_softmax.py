"""Online softmax: softmax-weighted values, accumulated one block of keys at a time."""

import mlx.core as mx


class OnlineSoftmax:
    """softmax(scores) @ values, for scores and values that arrive in blocks of keys.

    The state is three arrays: each row's running maximum and, relative to it, the sum of the weights and the sum of the
    weighted values. It does not grow with the number of keys.
    """

    def __init__(self, *shape: int) -> None:
        """Create the state for a result of this shape, N.. x L x D, before any key."""
        *rows, _ = shape
        self.largest = mx.full((*rows, 1), -mx.inf)  # N.. x L x 1
        self.total = mx.zeros((*rows, 1))  # N.. x L x 1
        self.seen = mx.zeros(shape)  # N.. x L x D

    def add(self, scores: mx.array, values: mx.array) -> None:
        """Accumulate a block of keys, in float32.

        Args:
            scores: N.. x L x B, any number B of keys from 1 on, of any float dtype; -inf where a key is hidden from a
                query.
            values: N.. x B x D, which broadcasts to scores' leading dimensions, of any float dtype.

        The arguments are not changed.
        """
        scores = scores.astype(mx.float32)
        largest = mx.maximum(self.largest, mx.max(scores, axis=-1, keepdims=True))
        # A row fully masked so far has no maximum, and -inf - -inf would be NaN: any finite number works.
        base = mx.where(largest == -mx.inf, 0.0, largest)
        kept = mx.exp(self.largest - base)  # rescales what is relative to the old maximum
        weights = mx.exp(scores - base)  # N.. x L x B
        self.total = self.total * kept + mx.sum(weights, axis=-1, keepdims=True)
        self.seen = self.seen * kept + weights @ values.astype(mx.float32)
        self.largest = largest

    def result(self) -> mx.array:
        """Return the weighted average of all values so far, N.. x L x D, float32; zeros for a fully masked row.

        More blocks may be added afterwards; a result returned before does not change.

        Source: Milakov and Gimelshein 2018; `mx.softmax`.
        """
        return self.seen / mx.where(self.total == 0, 1.0, self.total)
