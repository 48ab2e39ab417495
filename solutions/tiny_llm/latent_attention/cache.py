"""The latent cache: one latent and one RoPE key per token, for any number of heads."""

import mlx.core as mx


class LatentCache:
    """One layer's latents and RoPE keys, for batch rows of equal length.

    `offset` is the number of cached tokens, and so the position of the next one.
    """

    offset: int

    def __init__(self, capacity: int = 256) -> None:
        """Create an empty cache. The first call of `update_and_fetch` fixes N, C, D_rope and the dtype.

        Args:
            capacity: the initial capacity in tokens, at least 1.
        """
        self.offset = 0
        self._capacity = capacity
        self._entries: mx.array | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all cached entries, without unused capacity: what one decode step must read."""
        kept = self._entries
        return 0 if kept is None else kept.shape[0] * self.offset * kept.shape[2] * kept.dtype.size

    def update_and_fetch(self, latent: mx.array, rope_key: mx.array) -> mx.array:
        """Append the latents and RoPE keys of L tokens; return all entries.

        Within the capacity, only the new entries are copied. Beyond it, the capacity is doubled as often as needed, not
        grown by a constant, so that few calls copy the earlier entries, however many tokens there are.

        Args:
            latent: N x L x C. N, C and the dtype are those of the first call.
            rope_key: N x L x D_rope, latent's dtype. D_rope is that of the first call.

        Returns:
            One array of entries, N x offset x (C + D_rope), in order of arrival. In each entry the latent comes before
            the RoPE key. Later calls change neither this array nor the arguments.

        Raises:
            ValueError: rope_key's N, L or dtype differs from latent's, or either one's N, size or dtype differs from
                the cached ones. The cache is unchanged.

        Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1.4.
        """
        if (rope_key.shape[:-1], rope_key.dtype) != (latent.shape[:-1], latent.dtype):
            raise ValueError(f"rope_key is {_words(rope_key)}, but latent is {_words(latent)}")
        widths = latent.shape[-1], rope_key.shape[-1]
        batch, end = latent.shape[0], self.offset + latent.shape[1]
        if self._entries is None:
            self._widths, self._entries = widths, mx.zeros((batch, self._capacity, sum(widths)), latent.dtype)
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
        """Drop the last `count` tokens: the next ones overwrite them.

        Raises:
            ValueError: count is negative or exceeds the number of cached tokens. The message states both numbers.
        """
        if not 0 <= count <= self.offset:
            raise ValueError(f"cannot drop {count} of {self.offset} tokens")
        self.offset -= count


def _words(x: mx.array) -> str:
    return f"{' x '.join(map(str, x.shape))}, {x.dtype}"
