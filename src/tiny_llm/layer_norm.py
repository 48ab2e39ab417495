"""RMSNorm: each token's vector is scaled to one length, then weighted feature by feature."""

import mlx.core as mx


class RMSNorm:
    """Divides a vector by its root mean square."""

    def __init__(self, dim: int, weight: mx.array, eps: float = 1e-5) -> None:
        """Store the learned weight.

        Args:
            dim: the size of the vectors, x's last dimension.
            weight: dim, the factor of each normalized feature, in any float dtype.
            eps: added to the mean square, under the root, so that a zero vector remains zero.

        Raises:
            ValueError: weight's shape is not (dim,).
        """
        raise NotImplementedError("1.4.1 RMSNorm")

    def __call__(self, x: mx.array) -> mx.array:
        """Normalize each vector along the last axis.

        Args:
            x: N.. x dim.

        Returns:
            An array of x's shape and dtype. Squares and mean are computed in float32: squares overflow float16.

        Source: Zhang and Sennrich 2019; `mx.fast.rms_norm`.
        """
        raise NotImplementedError("1.4.1 RMSNorm")
