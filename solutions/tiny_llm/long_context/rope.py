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
        if dims % 2:
            raise ValueError(f"dims is {dims}, but features are rotated in pairs, so an even number is needed")
        if isinstance(frequencies, mx.array) and frequencies.shape != (dims // 2,):
            raise ValueError(f"frequencies have shape {frequencies.shape}, but ({dims // 2},) is needed")
        self.dims, self.frequencies = dims, frequencies
        self.attention_factor, self.traditional = attention_factor, traditional

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
        batch, length, _, dims = x.shape
        if dims != self.dims:
            raise ValueError(f"x has {dims} features a head, but {self.dims} are needed")
        first = 0 if offset is None else offset
        one = slice(first, first + length) if isinstance(first, int) else first
        rows = one if isinstance(one, list) else [one]
        if isinstance(one, list) and len(rows) != batch:
            raise ValueError(f"offset has {len(rows)} slices, but x has {batch} rows")
        for row in rows:
            if row.stop - row.start != length or row.start < 0:
                raise ValueError(f"offset {row.start}:{row.stop} is not {length} positions from 0 on")
        angles = mx.stack([self._angles(row) for row in rows])[:, :, None, :]  # N or 1 x L x 1 x D/2
        cos, sin = mx.cos(angles) * self.attention_factor, mx.sin(angles) * self.attention_factor
        if self.traditional:
            first_of_pair, second = x[..., 0::2], x[..., 1::2]  # N x L x H x D/2
        else:
            first_of_pair, second = mx.split(x, 2, axis=-1)
        rotated = [first_of_pair * cos - second * sin, first_of_pair * sin + second * cos]
        y = mx.stack(rotated, axis=-1).flatten(-2) if self.traditional else mx.concatenate(rotated, axis=-1)
        return y.astype(x.dtype)

    def _angles(self, row: slice) -> mx.array:
        """Return the angles of one row's tokens, L x D/2, float32."""
        frequencies = self.frequencies if isinstance(self.frequencies, mx.array) else self.frequencies(row.stop)
        return mx.arange(row.start, row.stop, dtype=mx.float32)[:, None] * frequencies
