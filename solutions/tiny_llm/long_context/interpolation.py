"""Position interpolation: more positions, compressed into the trained range."""

import mlx.core as mx


def linear_frequencies(dims: int, base: float, factor: float) -> mx.array:
    """Return RoPE's frequencies with all positions divided by `factor`.

    An angle is position times frequency, so the frequencies are divided instead: base ** (-2i / dims) / factor for
    pair i. With a factor of 1 they are RoPE's as trained.

    Args:
        dims: D, the features of one head; even.
        base: theta.
        factor: how many times longer a sequence may be than in training; at least 1, not necessarily an integer.

    Returns:
        D/2 frequencies, float32, in radians per position.

    Raises:
        ValueError: dims is odd, or factor is less than 1.

    Source: Chen et al. 2023, section 2.3; `rope_type` "linear" of transformers.
    """
    if dims % 2:
        raise ValueError(f"dims is {dims}, but features are rotated in pairs, so an even number is needed")
    if factor < 1:
        raise ValueError(f"factor is {factor}, but a factor of at least 1 is needed")
    pair = mx.arange(dims // 2, dtype=mx.float32)
    return mx.power(base, -2.0 * pair / dims) / factor  # D/2
