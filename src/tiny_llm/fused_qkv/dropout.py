"""Dropout."""

import mlx.core as mx


def dropout(x: mx.array, rate: float, training: bool, key: mx.array | None = None) -> mx.array:
    """Set each element to zero with probability `rate` and scale the others, so that the expected value is unchanged.

    An element is kept where mx.random.bernoulli(1 - rate, x.shape, key=key) is True, and is divided by 1 - rate.

    Args:
        x: any shape, float32, float16 or bfloat16. It is not changed.
        rate: from 0 to 1: 0 drops nothing, 1 everything.
        training: False drops nothing.
        key: from `mx.random.key`; the same key drops the same elements. None uses MLX's global state.

    Returns:
        An array of x's shape and dtype. A dropped element is 0 even if it was infinite or NaN.

    Raises:
        ValueError: rate is not from 0 to 1, in training or not. The message states it.

    Source: Srivastava et al. 2014; `mlx.nn.Dropout`, `torch.nn.functional.dropout`.
    """
    raise NotImplementedError("4.2.3 Dropout")
