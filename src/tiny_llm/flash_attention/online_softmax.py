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
        raise NotImplementedError("2.7.1 The online softmax")

    def add(self, scores: mx.array, values: mx.array) -> None:
        """Take in a block of keys.

        Args:
            scores: N.. x L x B, any number B of keys, of any float dtype; -inf where a key is hidden from a query.
            values: N.. x B x D, which broadcasts to scores' leading dimensions, of any float dtype.

        The arguments are not changed. All is computed in float32.
        """
        raise NotImplementedError("2.7.1 The online softmax")

    def result(self) -> mx.array:
        """The average of all values so far; zeros for a query from which every key is hidden.

        Returns:
            N.. x L x D, float32. More keys may come after it.

        Source: Milakov and Gimelshein 2018; `mx.softmax`.
        """
        raise NotImplementedError("2.7.1 The online softmax")
