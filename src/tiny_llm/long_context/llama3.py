"""Llama 3's scaling: as YaRN, but the mixture follows the number of rotations, and scores stay as they are."""

import math

import mlx.core as mx


def llama3_frequencies(
    dims: int, base: float, factor: float, original_length: int, low_freq_factor: float, high_freq_factor: float
) -> mx.array:
    """Return RoPE's frequencies as Llama 3.1 and 3.2 scale them.

    Over the original length a pair of frequency f makes original_length * f / (2 pi) full rotations. With at least
    `high_freq_factor` of them, its frequency is unchanged; with at most `low_freq_factor`, it is divided by `factor`.
    In between the two are blended, and the weight of the unchanged one grows linearly with the number of rotations.

    Args:
        dims: D, the features of one head; even.
        base: theta.
        factor: by how much the low frequencies are divided.
        original_length: the number of positions the model was first trained on.
        low_freq_factor: with at most this many rotations, a frequency is divided; 1 in Llama's files.
        high_freq_factor: with at least this many, it is unchanged; more than `low_freq_factor`, 4 in Llama's files.

    Returns:
        D/2 frequencies, float32, in radians per position.

    Source: `rope_type` "llama3" of transformers.
    """
    kept = mx.power(base, -2.0 * mx.arange(dims // 2, dtype=mx.float32) / dims)  # D/2
    rotations = original_length * kept / (2 * math.pi)
    share = mx.clip((rotations - low_freq_factor) / (high_freq_factor - low_freq_factor), 0.0, 1.0)
    return kept * share + kept / factor * (1 - share)
