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
        raise NotImplementedError("4.4.3 The latent cache")

    @property
    def nbytes(self) -> int:
        """The bytes of all entries that are there, without the room behind them: what one decode step must read."""
        raise NotImplementedError("4.4.3 The latent cache")

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
        raise NotImplementedError("4.4.3 The latent cache")

    def rewind(self, count: int) -> None:
        """Forget the last tokens: the next ones take their places.

        Args:
            count: how many.

        Raises:
            ValueError: count is negative, or more than there are. The message says both numbers.
        """
        raise NotImplementedError("4.4.3 The latent cache")
