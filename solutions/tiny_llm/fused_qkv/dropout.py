"""Dropout: in training, some numbers become zero by chance."""

import mlx.core as mx


def dropout(x: mx.array, rate: float, training: bool, key: mx.array | None = None) -> mx.array:
    """Make each number zero with probability `rate`, and the others larger, so that their mean stays as it is.

    A number stays where mx.random.bernoulli(1 - rate, x.shape, key=key) is True. It is then divided by 1 - rate.

    Args:
        x: any shape, float32, float16 or bfloat16. It is not changed.
        rate: from 0 to 1. It is a rate and no switch: 0 drops nothing, 1 everything.
        training: False drops nothing.
        key: of `mx.random.key`; the same key drops the same numbers. None takes the next of MLX's own.

    Returns:
        An array of x's shape and dtype. A number that is dropped is 0, whatever it was, also infinity or NaN.

    Raises:
        ValueError: rate is not from 0 to 1, in training or not. The message says what it is.

    Source: Srivastava et al. 2014; `mlx.nn.Dropout`, `torch.nn.functional.dropout`.
    """
    if not 0 <= rate <= 1:  # NaN is not, either
        raise ValueError(f"rate is {rate}, but it must be from 0 to 1")
    if not training or rate == 0:
        return x
    stays = mx.random.bernoulli(1 - rate, x.shape, key=key)
    # Chosen and not multiplied: 0 * inf is NaN, and at rate 1 every x / (1 - rate) is infinite.
    return mx.where(stays, x / (1 - rate), 0.0)
