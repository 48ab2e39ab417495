"""The KV cache: the keys and values of all tokens that a layer has read."""

import mlx.core as mx


class KVCache:
    """One layer's keys and values, for rows that are equally long.

    `offset` is how many tokens there are, which is the position of the next one.

    Rows of different lengths (week 3) will need an offset each: RoPE already takes a slice for every row, and attention
    any mask, so that another class with these methods can take this one's place.
    """

    offset: int

    def __init__(self, block: int = 256) -> None:
        """Begin with nothing; the first keys say what all are like.

        Args:
            block: room is made for a multiple of so many tokens.
        """
        raise NotImplementedError("2.1.1 The cache")

    def update_and_fetch(self, key: mx.array, value: mx.array) -> tuple[mx.array, mx.array]:
        """Append the keys and values of L tokens, and give those of all.

        Where there is room, nothing is copied but the new ones. Room grows by whole blocks, or faster, and never by the
        token.

        Args:
            key: N x H_kv x L x D. N, H_kv, D and the dtype are those of the first call.
            value: as key.

        Returns:
            Keys and values, N x H_kv x offset x D each, in the order in which they came. Whatever comes later, both
            arrays stay as they are, and so do the arguments.

        Raises:
            ValueError: value has another shape or dtype than key, or key another N, H_kv, D or dtype than those that
                are there. The message says what it has and what is needed. The cache stays as it was.

        Source: `mlx_lm.models.cache.KVCache`.
        """
        raise NotImplementedError("2.1.1 The cache")

    def rewind(self, count: int) -> None:
        """Forget the last tokens: the next ones take their places.

        Args:
            count: how many.

        Raises:
            ValueError: count is negative, or more than there are. The message says both numbers.
        """
        raise NotImplementedError("2.1.1 The cache")
