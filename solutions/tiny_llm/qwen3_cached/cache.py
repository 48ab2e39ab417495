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
        self.offset = 0
        self._block = block
        self._keys: mx.array | None = None
        self._values: mx.array | None = None

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
        if (value.shape, value.dtype) != (key.shape, key.dtype):
            raise ValueError(f"value is {_words(value)}, but key is {_words(key)}")
        end = self.offset + key.shape[2]
        keys, values = self._grow(self._keys, key, end), self._grow(self._values, value, end)
        keys[:, :, self.offset : end] = key
        values[:, :, self.offset : end] = value
        self._keys, self._values, self.offset = keys, values, end
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, count: int) -> None:
        """Drop the last `count` tokens: the next ones overwrite them.

        Raises:
            ValueError: count is negative or exceeds the number of cached tokens. The message states both numbers.
        """
        if not 0 <= count <= self.offset:
            raise ValueError(f"cannot drop {count} of {self.offset} tokens")
        self.offset -= count

    def _grow(self, kept: mx.array | None, new: mx.array, end: int) -> mx.array:
        """Return a buffer, N x H_kv x capacity x D, that begins with the kept entries and holds at least `end`."""
        batch, heads, _, dims = new.shape
        capacity = 0 if kept is None else kept.shape[2]
        if kept is not None and (kept.shape, kept.dtype) != ((batch, heads, capacity, dims), new.dtype):
            wanted = f"{kept.shape[0]} x {kept.shape[1]} x L x {kept.shape[3]}, {kept.dtype}"
            raise ValueError(f"key is {_words(new)}, but {wanted} is needed")
        if kept is not None and end <= capacity:
            return kept
        more = mx.zeros((batch, heads, -(-end // self._block) * self._block - capacity, dims), new.dtype)
        return more if kept is None else mx.concatenate([kept, more], axis=2)


def _words(x: mx.array) -> str:
    return f"{' x '.join(map(str, x.shape))}, {x.dtype}"
