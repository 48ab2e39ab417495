"""The KV cache: one layer's keys and values for all tokens so far."""

import mlx.core as mx


class KVCache:
    """One layer's keys and values, for batch rows of equal length.

    `offset` is the number of cached tokens, and so the position of the next one.

    Rows of different lengths would need one offset each. RoPE already takes a slice per row and attention takes any
    mask, so another class with these methods can replace this one.
    """

    offset: int

    def __init__(self, block: int = 256) -> None:
        """Create an empty cache. The first call of `update_and_fetch` fixes N, H_kv, D and the dtype.

        They stay fixed even if `rewind` drops all tokens.

        Args:
            block: the capacity is a multiple of this many tokens.
        """
        raise NotImplementedError("2.1.1 The cache")

    def update_and_fetch(self, key: mx.array, value: mx.array) -> tuple[mx.array, mx.array]:
        """Append the keys and values of L tokens; return all of them.

        Within the capacity, only the new ones are copied. The capacity grows by at least a whole block at a time, never
        by the token.

        Args:
            key: N x H_kv x L x D. N, H_kv, D and the dtype are those of the first call.
            value: as key.

        Returns:
            Keys and values, N x H_kv x offset x D each, in order of arrival. Later calls change neither these arrays
            nor the arguments.

        Raises:
            ValueError: value's shape or dtype differs from key's, or key's N, H_kv, D or dtype differs from the cached
                ones. The message states what was given and what is needed. The cache is unchanged.

        Source: `mlx_lm.models.cache.KVCache`.
        """
        raise NotImplementedError("2.1.1 The cache")

    def rewind(self, count: int) -> None:
        """Drop the last `count` tokens: the next ones overwrite them.

        Raises:
            ValueError: count is negative or exceeds the number of cached tokens. The message states both numbers.
        """
        raise NotImplementedError("2.1.1 The cache")
