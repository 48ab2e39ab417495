"""A KV cache that does not grow: the last tokens, and the very first."""

import mlx.core as mx


class RollingCache:
    """One layer's keys and values, of the tokens that a window still sees.

    `offset` is how many tokens there have been, which is the position of the next one; most of them may be forgotten.
    It takes the place of a `KVCache` in a layer that looks through a window. What it gives is masked as if it were the
    whole text: `window_mask(L, S, window, sinks)`, where S is the number of keys that came back.
    """

    offset: int

    def __init__(self, window: int, sinks: int = 0) -> None:
        """Begin with nothing; the first keys say what all are like.

        Args:
            window: W, how many tokens are kept, the current one among them, besides the sinks.
            sinks: how many tokens at the beginning of the text are kept for good.

        Raises:
            ValueError: window is less than 1, or sinks is less than 0. The message says the number.
        """
        if window < 1:
            raise ValueError(f"window is {window}, but the current token is kept at least: 1")
        if sinks < 0:
            raise ValueError(f"sinks is {sinks}, but no fewer than 0 tokens can be kept")
        self.offset = 0
        self._window, self._sinks = window, sinks
        self._oldest = sinks  # the first position behind the sinks that has not been written over
        self._keys: mx.array | None = None  # N x H_kv x (sinks + W) x D
        self._values: mx.array | None = None

    def update_and_fetch(self, key: mx.array, value: mx.array) -> tuple[mx.array, mx.array]:
        """Take in the keys and values of L tokens, and give those that at least one of them may see.

        These are the sinks, the window - 1 tokens before the L new ones, and the new ones: S = L + min(T, sinks +
        window - 1) of them, if T tokens have been there before. They are as they came in: RoPE has turned each key to
        its own position, where it stays.

        The cache has room for sinks + window tokens, and never more, however long the text becomes.

        Args:
            key: N x H_kv x L x D. N, H_kv, D and the dtype are those of the first call.
            value: as key.

        Returns:
            Keys and values, N x H_kv x S x D each, in the order in which they came; for L = 1 in any order, the same
            for both. Whatever comes later, both arrays stay as they are, and so do the arguments.

        Raises:
            ValueError: value has another shape or dtype than key, or key another N, H_kv, D or dtype than those that
                are there. The message says what it has and what is needed. The cache stays as it was.

        Source: Jiang et al. 2023, section 2; Xiao et al. 2023; `mlx_lm.models.cache.RotatingKVCache`.
        """
        if (value.shape, value.dtype) != (key.shape, key.dtype):
            raise ValueError(f"value is {_words(value)}, but key is {_words(key)}")
        keys, values = self._room(self._keys, key), self._room(self._values, value)
        before, end = self.offset, self.offset + key.shape[2]
        alone = key.shape[2] == 1  # a single token sees all that is there, and attention does not mind in which order
        if not alone:
            recent = range(max(self._sinks, before - self._window + 1), before)
            seen = mx.array([self._place(p) for p in (*range(min(self._sinks, before)), *recent)], mx.int32)
            fetched = tuple(mx.concatenate([x[:, :, seen], new], axis=2) for x, new in ((keys, key), (values, value)))
        kept = [p for p in range(before, end) if p < self._sinks or p >= end - self._window]  # of the new ones
        places, rows = mx.array([self._place(p) for p in kept]), mx.array(kept) - before
        keys[:, :, places] = key[:, :, rows]
        values[:, :, places] = value[:, :, rows]
        self._keys, self._values, self.offset = keys, values, end
        self._oldest = max(self._oldest, end - self._window)
        if alone:
            there = min(end, self._sinks + self._window)
            fetched = keys[:, :, :there], values[:, :, :there]
        return fetched[0], fetched[1]

    def rewind(self, count: int) -> None:
        """Forget the last tokens: the next ones take their places.

        While nothing has been written over, so up to sinks + window tokens, any number can be forgotten. From then on
        it is the last one alone, and none before another one has come: the next token would see one that is gone.

        Args:
            count: how many.

        Raises:
            ValueError: count is negative, more than there are, or so many that the next token would see one that is no
                longer kept. The message says how many were asked for and how many can be forgotten.
        """
        most = self.offset if self._oldest == self._sinks else self.offset - self._window + 1 - self._oldest
        if not 0 <= count <= most:
            raise ValueError(f"{count} tokens cannot be forgotten of {self.offset}: {most} at most")
        self.offset -= count

    def _place(self, position: int) -> int:
        """Where a token is kept: the sinks first, then the others in a ring."""
        return position if position < self._sinks else self._sinks + (position - self._sinks) % self._window

    def _room(self, kept: mx.array | None, new: mx.array) -> mx.array:
        """The array that is there, if it is like the new one, or an empty one."""
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
