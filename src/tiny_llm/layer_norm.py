"""RMSNorm: every token's vector brought to one length, then weighted feature by feature."""

import mlx.core as mx


class RMSNorm:
    """Divides a vector by the root of the mean of its squares."""

    def __init__(self, dim: int, weight: mx.array, eps: float = 1e-5) -> None:
        """Keep the learned weight.

        Args:
            dim: the size of the vectors, x's last dimension.
            weight: dim, what each normalised feature is multiplied by, in any float dtype.
            eps: added to the mean square, under the root, so that a vector of zeros stays one.

        Raises:
            ValueError: weight has another shape than (dim,).
        """
        raise NotImplementedError("1.4.1 RMSNorm")

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise each vector along the last axis.

        Args:
            x: N.. x dim.

        Returns:
            An array of x's shape and dtype. The mean is taken in float32: a sum of squares outgrows float16.

        Source: Zhang and Sennrich 2019; `mx.fast.rms_norm`.
        """
        raise NotImplementedError("1.4.1 RMSNorm")
