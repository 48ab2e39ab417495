"""RoPE: a token's position, encoded in the direction of its queries and keys."""

import functools

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
    if dims % 2:
        raise ValueError(f"dims is {dims}, but features are rotated in pairs, so an even number is needed")
    pair = mx.arange(dims // 2, dtype=mx.float32)
    frequencies = mx.power(base, -2.0 * pair / dims)  # D/2, falling from 1 towards 1 / base
    return mx.arange(seq_len, dtype=mx.float32)[:, None] * frequencies


@functools.lru_cache(maxsize=4)  # all layers of a model share the tables: megabytes once, not once per layer
def _tables(dims: int, seq_len: int, base: float) -> tuple[mx.array, mx.array]:
    """Return the cosines and sines of all angles, each seq_len x D/2, float32."""
    angles = rotation_angles(dims, seq_len, base)
    return mx.cos(angles), mx.sin(angles)


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
        self.cos, self.sin = _tables(dims, seq_len, base)
        self.dims, self.seq_len, self.traditional = dims, seq_len, traditional

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
        batch, length, _, dims = x.shape
        if dims != self.dims:
            raise ValueError(f"x has {dims} features a head, but {self.dims} are needed")
        rows = offset if isinstance(offset, list) else [slice(0, length) if offset is None else offset]
        if isinstance(offset, list) and len(rows) != batch:
            raise ValueError(f"offset has {len(rows)} slices, but x has {batch} rows")
        for row in rows:
            if row.stop - row.start != length:
                raise ValueError(f"offset {row.start}:{row.stop} does not hold {length} positions")
            if row.start < 0 or row.stop > self.seq_len:
                raise ValueError(f"offset {row.start}:{row.stop} leaves the {self.seq_len} positions")
        cos = mx.stack([self.cos[row] for row in rows])[:, :, None, :]  # N or 1 x L x 1 x D/2
        sin = mx.stack([self.sin[row] for row in rows])[:, :, None, :]
        if self.traditional:
            first, second = x[..., 0::2], x[..., 1::2]  # N x L x H x D/2
        else:
            first, second = mx.split(x, 2, axis=-1)
        # A rotation in the plane of the two features.
        rotated = [first * cos - second * sin, first * sin + second * cos]
        y = mx.stack(rotated, axis=-1).flatten(-2) if self.traditional else mx.concatenate(rotated, axis=-1)
        return y.astype(x.dtype)
