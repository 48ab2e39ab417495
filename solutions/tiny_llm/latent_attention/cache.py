"""The latent cache: of each token one latent and one rope key, whatever the number of heads."""

import mlx.core as mx


class LatentCache:
    """What one layer keeps of all tokens that it has read, for rows that are equally long.

    `offset` is how many tokens there are, which is the position of the next one.
    """

    offset: int

    def __init__(self, room: int = 256) -> None:
        """Begin with nothing; the first tokens say what all are like.

        Args:
            room: for so many tokens there is room at first; at least 1.
        """
        self.offset = 0
        self._room = room
        self._entries: mx.array | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all entries that are there, without the room behind them: what one decode step must read."""
        kept = self._entries
        return 0 if kept is None else kept.shape[0] * self.offset * kept.shape[2] * kept.dtype.size

    def update_and_fetch(self, latent: mx.array, rope_key: mx.array) -> mx.array:
        """Append what is kept of L tokens, and give that of all.

        Where there is room, nothing is copied but what is new. Where there is not, the room is doubled, as often as it
        takes: of many tokens, few need a copy of those before.

        Args:
            latent: N x L x C. N, C and the dtype are those of the first call.
            rope_key: N x L x D_rope, latent's dtype. D_rope is that of the first call.

        Returns:
            One array of entries, N x offset x (C + D_rope), in the order in which the tokens came. In each entry the
            latent stands before the rope key. Whatever comes later, the array stays as it is, and so do the arguments.

        Raises:
            ValueError: rope_key has another N, L or dtype than latent, or one of the two has another N, size or dtype
                than what is there. The cache stays as it was.

        Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.4.
        """
        if (rope_key.shape[:-1], rope_key.dtype) != (latent.shape[:-1], latent.dtype):
            raise ValueError(f"rope_key is {_words(rope_key)}, but latent is {_words(latent)}")
        widths = latent.shape[-1], rope_key.shape[-1]
        batch, end = latent.shape[0], self.offset + latent.shape[1]
        if self._entries is None:
            self._widths, self._entries = widths, mx.zeros((batch, self._room, sum(widths)), latent.dtype)
        kept = self._entries
        if (batch, widths, latent.dtype) != (kept.shape[0], self._widths, kept.dtype):
            wanted = f"{kept.shape[0]} x L x {self._widths[0]} and {self._widths[1]}, {kept.dtype}"
            raise ValueError(f"latent is {_words(latent)}, rope_key {_words(rope_key)}, but {wanted} is needed")
        while end > kept.shape[1]:
            kept = mx.concatenate([kept, mx.zeros_like(kept)], axis=1)
        kept[:, self.offset : end] = mx.concatenate([latent, rope_key], axis=-1)
        self._entries, self.offset = kept, end
        return kept[:, :end]

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


def _words(x: mx.array) -> str:
    return f"{' x '.join(map(str, x.shape))}, {x.dtype}"
