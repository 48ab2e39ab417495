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
        raise NotImplementedError("4.4.3 The latent cache")

    @property
    def nbytes(self) -> int:
        """The bytes of all cached entries, without unused capacity: what one decode step must read."""
        raise NotImplementedError("4.4.3 The latent cache")

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
        raise NotImplementedError("4.4.3 The latent cache")

    def rewind(self, count: int) -> None:
        """Drop the last `count` tokens: the next ones overwrite them.

        Raises:
            ValueError: count is negative or exceeds the number of cached tokens. The message states both numbers.
        """
        raise NotImplementedError("4.4.3 The latent cache")
