"""The basic array functions: softmax, linear, SiLU."""

import mlx.core as mx


def softmax(x: mx.array, axis: int) -> mx.array:
    """Convert scores to weights: exponentials along `axis`, divided by their sum.

    Args:
        x: scores of any shape, float32, float16 or bfloat16. Entries may be -inf, but not all of them along `axis`.
            It is not changed.
        axis: the axis whose weights sum to one; negative counts from the end.

    Returns:
        An array of x's shape and dtype. Scores of any size give finite weights: exp() never sees a positive number.

    Source: `mx.softmax`, `torch.softmax`.
    """
    raise NotImplementedError("1.1.1 Softmax")


def linear(x: mx.array, w: mx.array, bias: mx.array | None = None) -> mx.array:
    """Multiply by a weight matrix stored one row per output: x @ w.T + bias.

    Args:
        x: N.. x I, any number of leading dimensions, including none.
        w: O x I, one row of weights for each output feature.
        bias: O, added to every output row; None adds nothing.

    Returns:
        N.. x O, in the dtype the three arrays share. The arguments are not changed.

    Raises:
        ValueError: x's last dimension is not w's I.

    Source: `mlx.nn.Linear`, `torch.nn.functional.linear`.
    """
    raise NotImplementedError("1.1.3 Linear")


def silu(x: mx.array) -> mx.array:
    """Return x * sigmoid(x): almost x for large numbers, almost 0 for very negative ones, smooth in between.

    Args:
        x: any shape, float32, float16 or bfloat16.

    Returns:
        An array of x's shape and dtype; no x overflows, however large or negative. Small results keep their precision:
        in every dtype -9 gives -0.00111, not 0.

    Source: Elfwing et al. 2017; `mlx.nn.silu`.
    """
    raise NotImplementedError("1.4.2 SiLU")
