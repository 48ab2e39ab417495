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
    raise NotImplementedError("5.3.1 The gradients of a linear layer")


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
    raise NotImplementedError("5.3.2 The gradient of an embedding")


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
    raise NotImplementedError("5.3.3 The gradients of RMSNorm")


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
    raise NotImplementedError("5.3.4 The gradients of SwiGLU")
