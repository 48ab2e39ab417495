"""NTK-aware scaling: a larger base, which lowers the low frequencies and hardly changes the high ones."""

import mlx.core as mx

from .interpolation import linear_frequencies


def ntk_frequencies(
    dims: int, base: float, factor: float, length: int | None = None, original_length: int | None = None
) -> mx.array:
    """Return RoPE's frequencies for a larger base: base * s ** (dims / (dims - 2)).

    With this exponent the lowest frequency is divided by exactly s, as by interpolation, and the highest remains 1.
    s is `factor`, unless a length is given. Then scaling is dynamic and s grows with the length:
    s = factor * length / original_length - (factor - 1), but at least 1, so that up to original_length RoPE is as
    trained.

    Args:
        dims: D, the features of one head; even, and at least 4.
        base: theta.
        factor: at least 1.
        length: the number of positions so far, for dynamic scaling; None for a fixed factor.
        original_length: the number of positions the model was trained on; required with a length, otherwise ignored.

    Returns:
        D/2 frequencies, float32, in radians per position.

    Raises:
        ValueError: dims is odd or less than 4, factor is less than 1, or a length is given without an original_length.

    Source: `rope_type` "dynamic" of transformers; Peng et al. 2023, section 3.1.
    """
    if dims < 4:
        raise ValueError(f"dims is {dims}, but a fastest and a slowest pair are needed, so at least 4")
    if factor < 1:
        raise ValueError(f"factor is {factor}, but a factor of at least 1 is needed")
    stretch = factor
    if length is not None:
        if original_length is None:
            raise ValueError(f"length is {length}, but without an original_length to compare it with")
        stretch = max(1.0, factor * length / original_length - (factor - 1))
    return linear_frequencies(dims, base * stretch ** (dims / (dims - 2)), 1)  # D/2
