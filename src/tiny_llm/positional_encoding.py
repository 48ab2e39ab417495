"""RoPE: a token's position, encoded in the direction of its queries and keys."""

import mlx.core as mx


def rotation_angles(dims: int, seq_len: int, base: float) -> mx.array:
    """Return the angle of each pair of features at each position: position * base ** (-2i / dims) for pair i.

    Args:
        dims: D, the features of one head; even, as they are rotated in pairs.
        seq_len: the number of positions, counted from 0.
        base: theta, which sets the lowest frequency.

    Returns:
        seq_len x D/2, float32, in radians.

    Raises:
        ValueError: dims is odd.

    Source: Su et al. 2021, section 3.2.2.
    """
    raise NotImplementedError("1.2.1 Rotation angles")


class RoPE:
    """Rotates each pair of features of a query or key by an angle that grows with the token's position.

    The dot product of a rotated query and a rotated key depends on their distance, not on their positions.
    """

    def __init__(self, dims: int, seq_len: int, base: float = 10000, traditional: bool = False) -> None:
        """Compute the sines and cosines of every position.

        Args:
            dims: D, the features of one head.
            seq_len: the positions 0 to seq_len - 1 can be used.
            base: theta.
            traditional: which features form pair i: 2i and 2i + 1 if True, i and i + D/2 if False.

        Raises:
            ValueError: dims is odd.
        """
        raise NotImplementedError("1.2.2 RoPE")

    def __call__(self, x: mx.array, offset: slice | list[slice] | None = None) -> mx.array:
        """Rotate every head's features by the angles of its token's position.

        Args:
            x: N x L x H x D.
            offset: the positions of the L tokens, as slice(first, first + L), both numbers given and no step; a list
                has one slice for each of the N rows; None means slice(0, L).

        Returns:
            An array of x's shape and dtype; the rotation is computed in float32.

        Raises:
            ValueError: x's last dimension is not D, a slice does not span L positions or leaves 0 .. seq_len, or a list
                does not have N slices.

        Source: `mx.fast.rope` (which takes the length next to last: N x H x L x D).
        """
        raise NotImplementedError("1.2.2 RoPE")
