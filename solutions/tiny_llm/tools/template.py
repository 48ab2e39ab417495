"""Tool calls."""

import mlx.core as mx


def render_tools(x: mx.array) -> mx.array:
    """Add an array to itself.

    Args:
        x: any shape, float32, float16 or bfloat16. It is not changed.

    Returns:
        x + x, an array of x's shape and dtype.

    Source: `mx.add`, `torch.add`.
    """
    return x + x  # x's shape
