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
        raise NotImplementedError("4.3.4 The rolling cache")

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
        raise NotImplementedError("4.3.4 The rolling cache")

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
        raise NotImplementedError("4.3.4 The rolling cache")
