"""The vector-Jacobian products (VJPs) of a linear layer, an embedding, RMSNorm and SwiGLU.

dy is the gradient of the loss with respect to the layer's output, and has the output's shape. Each function returns the
gradients of the layer's inputs and weights, in their shapes.
"""

import mlx.core as mx


def linear_vjp(x: mx.array, w: mx.array, dy: mx.array) -> tuple[mx.array, mx.array]:
    """Return the gradients of x and w for y = x @ w.T, given dy, the gradient of y.

    Args:
        x: N.. x I, any number of leading dimensions, including none.
        w: O x I, one row of weights for each output feature.
        dy: N.. x O, the gradient of y.

    Returns:
        dx: N.. x I, in the dtype that the three arrays share.
        dw: O x I, in the same dtype, summed over all rows of x, which share the weights.

        The arguments are not changed.

    Raises:
        ValueError: dy's shape is not N.. x O. The message states it and the one needed.

    Source: Rumelhart et al. 1986; `mx.vjp`, `torch.autograd`.
    """
    _check_dy(dy, (*x.shape[:-1], w.shape[0]))
    outputs, inputs = w.shape
    dx = dy @ w  # N.. x I
    dw = dy.reshape(-1, outputs).T @ x.reshape(-1, inputs)  # O x I
    return dx, dw


def embedding_vjp(ids: mx.array, dy: mx.array, vocab_size: int) -> mx.array:
    """Return the gradient of the embedding table for y = table[ids], given dy, the gradient of y.

    Args:
        ids: N.., integers from 0 to V - 1. An id may occur several times.
        dy: N.. x E, the gradient of y, of any float dtype.
        vocab_size: V.

    Returns:
        V x E, in dy's dtype, summed in float32: row i is the sum of dy over all places where the id is i, and zero if
        there is none. The arguments are not changed.

    Raises:
        ValueError: dy's shape is not N.. x E. The message states it.

    Source: `mx.vjp`, `torch.nn.functional.embedding`.
    """
    _check_dy(dy, (*ids.shape, *dy.shape[-1:]))
    table = mx.zeros((vocab_size, dy.shape[-1]), mx.float32)  # float16 counts to 2,048: a frequent id would stop there
    return table.at[ids].add(dy.astype(mx.float32)).astype(dy.dtype)


def rms_norm_vjp(x: mx.array, weight: mx.array, eps: float, dy: mx.array) -> tuple[mx.array, mx.array]:
    """Return the gradients of x and weight for y = x * rsqrt(mean(x * x) + eps) * weight, given dy, the gradient of y.

    Args:
        x: N.. x E, any number of leading dimensions, including none.
        weight: E, in any float dtype.
        eps: added to the mean square, under the root.
        dy: N.. x E, the gradient of y.

    Returns:
        dx: N.. x E, in x's dtype.
        dweight: E, in weight's dtype, summed over all rows of x.

        Both are computed in float32 and rounded once. The arguments are not changed.

    Raises:
        ValueError: dy's shape is not x's. The message states both.

    Source: Zhang and Sennrich 2019; `mx.fast.rms_norm`, `torch.nn.functional.rms_norm`.
    """
    _check_dy(dy, x.shape)
    wide, d = x.astype(mx.float32), dy.astype(mx.float32)
    scale = mx.rsqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True) + eps)  # N.. x 1
    normalized = wide * scale  # N.. x E
    dn = d * weight.astype(mx.float32)  # N.. x E: the gradient of the normalized vector
    # The scale depends on x, too, which removes the part of dn that is parallel to x, but for eps.
    dx = scale * (dn - normalized * mx.mean(dn * normalized, axis=-1, keepdims=True))
    dweight = mx.sum((d * normalized).reshape(-1, x.shape[-1]), axis=0)  # E
    return dx.astype(x.dtype), dweight.astype(weight.dtype)


def swiglu_vjp(gate: mx.array, up: mx.array, dy: mx.array) -> tuple[mx.array, mx.array]:
    """Return the gradients of gate and up for y = silu(gate) * up, given dy, the gradient of y.

    silu(g) is g * sigmoid(g).

    Args:
        gate: any shape, float32, float16 or bfloat16; no value overflows, however large or negative.
        up: gate's shape and dtype.
        dy: the same, the gradient of y.

    Returns:
        dgate and dup, in gate's shape and dtype, computed in float32 and rounded once. The arguments are not changed.

    Raises:
        ValueError: up's or dy's shape is not gate's. The message states it and the one needed.

    Source: Shazeer 2020; Elfwing et al. 2017, section 2.
    """
    _check_dy(up, gate.shape, "up")
    _check_dy(dy, gate.shape)
    g, u, d = (a.astype(mx.float32) for a in (gate, up, dy))
    sigmoid = mx.sigmoid(g)
    dgate = d * u * sigmoid * (1 + g * (1 - sigmoid))
    dup = d * g * sigmoid
    return dgate.astype(gate.dtype), dup.astype(gate.dtype)


def _check_dy(dy: mx.array, needed: tuple[int, ...], name: str = "dy") -> None:
    """Raise ValueError unless dy has the output's shape."""
    if dy.shape != needed:
        raise ValueError(f"{name} has shape {dy.shape}, but {needed} is needed")
