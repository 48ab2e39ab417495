"""RoPE with arbitrary frequencies and no maximum position."""

from collections.abc import Callable

import mlx.core as mx

Frequencies = mx.array | Callable[[int], mx.array]
Offset = int | slice | list[slice] | None


class ScaledRoPE:
    """Rotates each pair of features of a query or key by its frequency times the token's position.

    It differs from week 1's `RoPE` in three ways: the frequencies are given, cosines and sines may be multiplied by an
    attention factor, and there is no maximum position.
    """

    def __init__(
        self, dims: int, frequencies: Frequencies, attention_factor: float = 1.0, traditional: bool = False
    ) -> None:
        """Store the frequencies and the pairing.

        Args:
            dims: D, the features of one head; even.
            frequencies: D/2 frequencies in radians per position, or a function that returns them for a length. Each row
                has its own length: the number of positions up to and including its last token.
            attention_factor: multiplies cosines and sines, and so the rotated vectors.
            traditional: which features form pair i: 2i and 2i + 1 if True, i and i + D/2 if False.

        Raises:
            ValueError: dims is odd, or an array of frequencies does not have the shape D/2.
        """
        raise NotImplementedError("4.7.4 RoPE with given frequencies")

    def __call__(self, x: mx.array, offset: Offset = None) -> mx.array:
        """Rotate every head's features by the angles of its token's position.

        Args:
            x: N x L x H x D.
            offset: the positions of the L tokens, as slice(first, first + L), both numbers given and no step; a list
                has one slice for each of the N rows; an integer is the first position; None means slice(0, L).

        Returns:
            An array of x's shape and dtype; the rotation is computed in float32.

        Raises:
            ValueError: x's last dimension is not D, a slice does not span L positions, a slice or an integer begins
                before position 0, or a list does not have N slices.
        """
        raise NotImplementedError("4.7.4 RoPE with given frequencies")
