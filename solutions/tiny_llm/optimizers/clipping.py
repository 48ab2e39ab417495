"""Gradient clipping."""

import mlx.core as mx

Params = dict[str, mx.array]


def clip_by_global_norm(grads: Params, max_norm: float) -> tuple[Params, mx.array]:
    """Scale all gradients by one factor, so that the norm of all of them together is at most `max_norm`.

    Args:
        grads: the gradients by name, of any shapes and float dtypes; there may be none.
        max_norm: the limit, a positive number.

    Returns:
        The gradients in their own dtypes, multiplied by min(1, max_norm / (norm + 1e-6)); and norm, a float32 scalar:
        the root of the sum of all squares of all gradients before clipping, computed in float32. Zero gradients stay
        zero. The arguments are not changed, nor are their arrays.

        If a gradient is infinite or NaN, the norm is too, and the gradients are useless: check the norm before the
        update.

    Raises:
        ValueError: max_norm is not positive. The message states it.

    Source: Pascanu et al. 2013; `torch.nn.utils.clip_grad_norm_`.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm is {max_norm}, but a positive number is needed")
    squares = [mx.sum(mx.square(grad.astype(mx.float32))) for grad in grads.values()]
    norm = mx.sqrt(sum(squares, start=mx.array(0.0)))
    factor = mx.minimum(1.0, max_norm / (norm + 1e-6))
    return {name: (grad.astype(mx.float32) * factor).astype(grad.dtype) for name, grad in grads.items()}, norm
