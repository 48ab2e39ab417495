"""YaRN: pairs that have gone round in training stay, the others are interpolated, and scores are sharpened."""

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
    """Paces pair by pair, and the factor by which cosines and sines are multiplied.

    Over the original length pair i makes original_length * base ** (-2i / dims) / (2 pi) turns. So there are `turns`
    of them at pair(turns) = dims * ln(original_length / (2 pi turns)) / (2 ln base). Up to low = pair(beta_fast) paces
    stay as they are; from high = pair(beta_slow) on they are divided by `factor`. In between the pace is a mixture,
    and the share of the divided one grows evenly: (i - low) / (high - low).

    Args:
        dims: D, the features of one head; even.
        base: theta, more than 1.
        factor: how many times longer a text may be than original_length; at least 1.
        original_length: how many positions the model was trained on.
        beta_fast: a pair with at least so many turns in training is left alone.
        beta_slow: a pair with at most so many turns is interpolated.
        truncate: whether low is rounded down and high up, to whole pairs. In either case low is then made at least 0,
            high at most dims - 1, and high - low at least 0.001.

    Returns:
        D/2 paces, float32, in radians a position; and the attention factor, 0.1 ln(factor) + 1, a Python float.

    Raises:
        ValueError: dims is odd, or factor is less than 1.

    Source: Peng et al. 2023, section 3; `rope_type` "yarn" of transformers.
    """
    raise NotImplementedError("4.7.3 YaRN")
