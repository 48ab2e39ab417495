"""RoPE by any paces: they are handed over, and no table says how long a text may be."""

from collections.abc import Callable

import mlx.core as mx

Frequencies = mx.array | Callable[[int], mx.array]
Offset = int | slice | list[slice] | None


class ScaledRoPE:
    """Turns each pair of features of a query or key by its pace times the token's position.

    What `RoPE` of week 1 does, but for three things: the paces are given, cosines and sines may be multiplied by an
    attention factor, and there is no last position.
    """

    def __init__(
        self, dims: int, frequencies: Frequencies, attention_factor: float = 1.0, traditional: bool = False
    ) -> None:
        """Keep what the turning needs.

        Args:
            dims: D, the features of one head; even.
            frequencies: D/2 paces in radians a position, or a function that gives them for a length. Each row has a
                length of its own: how many positions there are up to its last token, that one included.
            attention_factor: cosines and sines are multiplied by it, so the turned vectors are.
            traditional: which features form pair i: 2i and 2i + 1 if True, i and i + D/2 if False.

        Raises:
            ValueError: dims is odd, or an array of frequencies does not have the shape D/2.
        """
        raise NotImplementedError("4.7.4 RoPE by given paces")

    def __call__(self, x: mx.array, offset: Offset = None) -> mx.array:
        """Turn every head's features by the angles of its token's position.

        Args:
            x: N x L x H x D.
            offset: the positions of the L tokens, as slice(first, first + L), both numbers given and no step; a list
                has one slice for each of the N rows; a number is the first position; None means slice(0, L).

        Returns:
            An array of x's shape and dtype; the turning is done in float32.

        Raises:
            ValueError: x's last dimension is not D, a slice does not hold L positions or begins before 0, or a list
                does not hold N slices.
        """
        raise NotImplementedError("4.7.4 RoPE by given paces")
