"""YaRN: high frequencies stay, low ones are interpolated, and scores are scaled up."""

import mlx.core as mx

from .interpolation import linear_frequencies


def yarn_frequencies(
    dims: int,
    base: float,
    factor: float,
    original_length: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> tuple[mx.array, float]:
    """Return YaRN's frequencies and its attention factor, which multiplies cosines and sines.

    Over the original length pair i makes original_length * base ** (-2i / dims) / (2 pi) full rotations, so the pair
    that makes r of them is pair(r) = dims * ln(original_length / (2 pi r)) / (2 ln base). Up to low = pair(beta_fast)
    the frequencies are unchanged; from high = pair(beta_slow) on they are divided by `factor`. In between the two are
    blended, and the weight of the divided one is (i - low) / (high - low).

    Args:
        dims: D, the features of one head; even.
        base: theta, more than 1.
        factor: how many times longer a sequence may be than original_length; at least 1.
        original_length: the number of positions the model was trained on.
        beta_fast: a pair with at least this many rotations in training is unchanged.
        beta_slow: a pair with at most this many rotations is interpolated.
        truncate: whether low is rounded down and high up, to whole pairs. In either case low is then clamped to at
            least 0, high to at most dims - 1, and high - low to at least 0.001.

    Returns:
        D/2 frequencies, float32, in radians per position; and the attention factor, 0.1 ln(factor) + 1, a Python float.

    Raises:
        ValueError: dims is odd, or factor is less than 1.

    Source: Peng et al. 2023, section 3; `rope_type` "yarn" of transformers.
    """
    raise NotImplementedError("4.7.3 YaRN")
