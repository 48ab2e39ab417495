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
        if weight.shape != (dim,):
            raise ValueError(f"weight has shape {weight.shape}, but {(dim,)} is needed")
        self.weight, self.eps = weight, eps

    def __call__(self, x: mx.array) -> mx.array:
        """Normalize each vector along the last axis.

        Args:
            x: N.. x dim.

        Returns:
            An array of x's shape and dtype. Squares and mean are computed in float32: squares overflow float16.

        Source: Zhang and Sennrich 2019; `mx.fast.rms_norm`.
        """
        wide = x.astype(mx.float32)
        scale = mx.rsqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True) + self.eps)
        return (wide * scale).astype(x.dtype) * self.weight.astype(x.dtype)
