"""A rolling KV cache of constant size: a window of the last tokens, and the sinks."""

import mlx.core as mx


class RollingCache:
    """One layer's keys and values for the tokens that a window still sees.

    `offset` is the number of tokens so far, evicted ones included, and so the position of the next one. It replaces a
    `KVCache` in a sliding-window layer. Mask what it returns as if it were the whole sequence:
    `window_mask(L, S, window, sinks)`, where S is the number of returned keys.
    """

    offset: int

    def __init__(self, window: int, sinks: int = 0) -> None:
        """Create an empty cache. The first call of `update_and_fetch` fixes N, H_kv, D and the dtype.

        Args:
            window: W, the number of tokens kept in addition to the sinks, the current one included.
            sinks: the number of first tokens that are never evicted.

        Raises:
            ValueError: window is less than 1, or sinks is less than 0. The message states the number.
        """
        raise NotImplementedError("4.3.4 The rolling cache")

    def update_and_fetch(self, key: mx.array, value: mx.array) -> tuple[mx.array, mx.array]:
        """Append the keys and values of L tokens; return those that at least one of the L may see.

        These are the sinks, the window - 1 tokens before the L new ones, and the new ones: S = L + min(T, sinks +
        window - 1) tokens after T earlier ones. Keys are returned as they were stored: RoPE has rotated each by its
        own position, which does not change.

        The capacity is sinks + window tokens, however long the sequence becomes.

        Args:
            key: N x H_kv x L x D. N, H_kv, D and the dtype are those of the first call.
            value: as key.

        Returns:
            Keys and values, N x H_kv x S x D each, in order of arrival; for L = 1 in any order, the same for both.
            Later calls change neither these arrays nor the arguments.

        Raises:
            ValueError: value's shape or dtype differs from key's, or key's N, H_kv, D or dtype differs from the cached
                ones. The message states what was given and what is needed. The cache is unchanged.

        Source: Jiang et al. 2023, section 2; Xiao et al. 2023; `mlx_lm.models.cache.RotatingKVCache`.
        """
        raise NotImplementedError("4.3.4 The rolling cache")

    def rewind(self, count: int) -> None:
        """Drop the last `count` tokens: the next ones overwrite them.

        Up to sinks + window tokens nothing has been overwritten, and any number can be dropped. After that it is only
        the last one, and then none until another one is appended: the next token would see an overwritten one.

        Raises:
            ValueError: count is negative, exceeds the number of tokens, or is so large that the next token would see an
                overwritten one. The message states the count and how many can be dropped.
        """
        raise NotImplementedError("4.3.4 The rolling cache")
