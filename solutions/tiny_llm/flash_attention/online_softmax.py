"""The softmax of numbers that come a block at a time, and the average of values by it."""

import mlx.core as mx


class OnlineSoftmax:
    """softmax(scores) @ values, for scores and values that come in blocks of keys.

    What has come so far is kept as three arrays, relative to the largest score of each row so far: that score, the sum
    of the weights, and the sum of the values times their weights.
    """

    def __init__(self, *shape: int) -> None:
        """Begin with no keys.

        Args:
            shape: N.. x L x D, of the result.
        """
        *rows, _ = shape
        self.largest = mx.full((*rows, 1), -mx.inf)  # N.. x L x 1
        self.total = mx.zeros((*rows, 1))  # N.. x L x 1
        self.seen = mx.zeros(shape)  # N.. x L x D

    def add(self, scores: mx.array, values: mx.array) -> None:
        """Take in a block of keys.

        Args:
            scores: N.. x L x B, any number B of keys, of any float dtype; -inf where a key is hidden from a query.
            values: N.. x B x D, which broadcasts to scores' leading dimensions, of any float dtype.

        The arguments are not changed. All is computed in float32.
        """
        scores = scores.astype(mx.float32)
        largest = mx.maximum(self.largest, mx.max(scores, axis=-1, keepdims=True))
        # A row that has seen nothing yet has no largest score, and -inf - -inf would be NaN: any number does.
        base = mx.where(largest == -mx.inf, 0.0, largest)
        kept = mx.exp(self.largest - base)  # of what was relative to the largest score before
        weights = mx.exp(scores - base)  # N.. x L x B
        self.total = self.total * kept + mx.sum(weights, axis=-1, keepdims=True)
        self.seen = self.seen * kept + weights @ values.astype(mx.float32)
        self.largest = largest

    def result(self) -> mx.array:
        """The average of all values so far; zeros for a query from which every key is hidden.

        Returns:
            N.. x L x D, float32. More keys may come after it.

        Source: Milakov and Gimelshein 2018; `mx.softmax`.
        """
        return self.seen / mx.where(self.total == 0, 1.0, self.total)
