"""NTK-aware scaling: a larger base, which slows down the slow pairs and hardly the fast ones."""

import mlx.core as mx

from .interpolation import linear_frequencies


def ntk_frequencies(
    dims: int, base: float, factor: float, length: int | None = None, original_length: int | None = None
) -> mx.array:
    """The paces of a larger base: base * s ** (dims / (dims - 2)).

    With this exponent the slowest pair's pace is divided by exactly s, as by interpolation, and the fastest pair's
    stays 1. s is `factor`, unless a length is given: then it is dynamic, and grows with the text:
    s = factor * length / original_length - (factor - 1), but never less than 1, so that a text which fits into
    original_length is read as in training.

    Args:
        dims: D, the features of one head; even, and at least 4.
        base: theta.
        factor: at least 1.
        length: how many positions there are so far, for dynamic scaling; None for a fixed factor.
        original_length: how many positions the model was trained on; needed with a length, and not looked at without.

    Returns:
        D/2 paces, float32, in radians a position.

    Raises:
        ValueError: dims is odd or less than 4, factor is less than 1, or a length is given without an original_length.

    Source: `rope_type` "dynamic" of transformers; Peng et al. 2023, section 3.1.
    """
    raise NotImplementedError("4.7.2 NTK-aware scaling")
