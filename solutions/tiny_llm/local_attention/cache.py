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
        if window < 1:
            raise ValueError(f"window is {window}, but the current token is kept at least: 1")
        if sinks < 0:
            raise ValueError(f"sinks is {sinks}, but no fewer than 0 tokens can be kept")
        self.offset = 0
        self._window, self._sinks = window, sinks
        self._oldest = sinks  # the first position after the sinks that has not been overwritten
        self._keys: mx.array | None = None  # N x H_kv x (sinks + W) x D
        self._values: mx.array | None = None

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
        if (value.shape, value.dtype) != (key.shape, key.dtype):
            raise ValueError(f"value is {_words(value)}, but key is {_words(key)}")
        keys, values = self._buffer(self._keys, key), self._buffer(self._values, value)
        before, end = self.offset, self.offset + key.shape[2]
        alone = key.shape[2] == 1  # a single token sees the whole buffer, and attention does not depend on the order
        if not alone:
            recent = range(max(self._sinks, before - self._window + 1), before)
            seen = mx.array([self._slot(p) for p in (*range(min(self._sinks, before)), *recent)], mx.int32)
            fetched = tuple(mx.concatenate([x[:, :, seen], new], axis=2) for x, new in ((keys, key), (values, value)))
        kept = [p for p in range(before, end) if p < self._sinks or p >= end - self._window]  # of the new ones
        slots, rows = mx.array([self._slot(p) for p in kept]), mx.array(kept) - before
        keys[:, :, slots] = key[:, :, rows]
        values[:, :, slots] = value[:, :, rows]
        self._keys, self._values, self.offset = keys, values, end
        self._oldest = max(self._oldest, end - self._window)
        if alone:
            there = min(end, self._sinks + self._window)
            fetched = keys[:, :, :there], values[:, :, :there]
        return fetched[0], fetched[1]

    def rewind(self, count: int) -> None:
        """Drop the last `count` tokens: the next ones overwrite them.

        Up to sinks + window tokens nothing has been overwritten, and any number can be dropped. After that it is only
        the last one, and then none until another one is appended: the next token would see an overwritten one.

        Raises:
            ValueError: count is negative, exceeds the number of tokens, or is so large that the next token would see an
                overwritten one. The message states the count and how many can be dropped.
        """
        most = self.offset if self._oldest == self._sinks else self.offset - self._window + 1 - self._oldest
        if not 0 <= count <= most:
            raise ValueError(f"cannot drop {count} of {self.offset} tokens: {most} at most")
        self.offset -= count

    def _slot(self, position: int) -> int:
        """Return a token's slot: the sinks first, then the others in a ring buffer."""
        return position if position < self._sinks else self._sinks + (position - self._sinks) % self._window

    def _buffer(self, kept: mx.array | None, new: mx.array) -> mx.array:
        """Return the buffer, allocating it at first; raise a ValueError if the new array does not fit it."""
        batch, heads, _, dims = new.shape
        shape = batch, heads, self._sinks + self._window, dims
        if kept is None:
            return mx.zeros(shape, new.dtype)
        if (kept.shape, kept.dtype) != (shape, new.dtype):
            wanted = f"{kept.shape[0]} x {kept.shape[1]} x L x {kept.shape[3]}, {kept.dtype}"
            raise ValueError(f"key is {_words(new)}, but {wanted} is needed")
        return kept


def _words(x: mx.array) -> str:
    return f"{' x '.join(map(str, x.shape))}, {x.dtype}"
