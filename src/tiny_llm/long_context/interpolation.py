"""Position interpolation: more positions, squeezed into the range that the model has seen."""

import mlx.core as mx


def linear_frequencies(dims: int, base: float, factor: float) -> mx.array:
    """How far each pair turns in one step when all positions are divided by `factor`.

    A turn is position times pace, so the paces are divided instead: base ** (-2i / dims) / factor for pair i. With a
    factor of 1 they are those of RoPE as the model was trained.

    Args:
        dims: D, the features of one head; even, as they turn in pairs.
        base: theta.
        factor: how many times longer a text may be than those of the training; at least 1, not always a whole number.

    Returns:
        D/2 paces, float32, in radians a position.

    Raises:
        ValueError: dims is odd, or factor is less than 1.

    Source: Chen et al. 2023, section 2.3; `rope_type` "linear" of transformers.
    """
    raise NotImplementedError("4.7.1 Position interpolation")
