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
        self.offset = 0
        self._block = block
        self._keys: mx.array | None = None
        self._values: mx.array | None = None

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
        if (value.shape, value.dtype) != (key.shape, key.dtype):
            raise ValueError(f"value is {_words(value)}, but key is {_words(key)}")
        end = self.offset + key.shape[2]
        keys, values = self._with_room(self._keys, key, end), self._with_room(self._values, value, end)
        keys[:, :, self.offset : end] = key
        values[:, :, self.offset : end] = value
        self._keys, self._values, self.offset = keys, values, end
        return keys[:, :, :end], values[:, :, :end]

    def rewind(self, count: int) -> None:
        """Forget the last tokens: the next ones take their places.

        Args:
            count: how many.

        Raises:
            ValueError: count is negative, or more than there are. The message says both numbers.
        """
        if not 0 <= count <= self.offset:
            raise ValueError(f"{count} tokens cannot be forgotten of {self.offset}")
        self.offset -= count

    def _with_room(self, kept: mx.array | None, new: mx.array, end: int) -> mx.array:
        """An array like the new one, N x H_kv x room x D, with what is kept at its beginning and room up to `end`."""
        batch, heads, _, dims = new.shape
        room = 0 if kept is None else kept.shape[2]
        if kept is not None and (kept.shape, kept.dtype) != ((batch, heads, room, dims), new.dtype):
            wanted = f"{kept.shape[0]} x {kept.shape[1]} x L x {kept.shape[3]}, {kept.dtype}"
            raise ValueError(f"key is {_words(new)}, but {wanted} is needed")
        if kept is not None and end <= room:
            return kept
        more = mx.zeros((batch, heads, -(-end // self._block) * self._block - room, dims), new.dtype)
        return more if kept is None else mx.concatenate([kept, more], axis=2)


def _words(x: mx.array) -> str:
    return f"{' x '.join(map(str, x.shape))}, {x.dtype}"
