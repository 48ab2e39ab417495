"""Llama 3's scaling: as YaRN, but the mixture follows the number of rotations, and scores stay as they are."""

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..config import ModelConfig, rope_entries

LIMITS = ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")  # their names in a config.json


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


class ScaledAngles:
    """Takes the place of `rotation_angles` while models are built, and scales the angles of those that ask for it.

    Week 1's `RoPE` and all that is built on it know a base only. So they run Llama 3.1 and 3.2 without a change.
    """

    def __init__(self, plain: Callable[[int, int, float], mx.array], configs: list[dict[str, Any]]) -> None:
        """Read the scaling of each model.

        Args:
            plain: `rotation_angles`.
            configs: the contents of each model's config.json, of architectures that `ModelConfig` reads.

        Raises:
            ValueError: two models have the same RoPE, but scale it differently.
        """
        self.plain, self.missed = plain, set[tuple[int, int, float]]()  # scaled, but not asked for yet
        self.scaling: dict[tuple[int, int, float], tuple[Any, ...]] = {}
        for entries in configs:
            c, rope = ModelConfig.from_dict(entries), rope_entries(entries)
            key = c.head_dim, c.max_position_embeddings, c.rope_theta
            scaling = tuple(rope[name] for name in ("factor", *LIMITS)) if rope["rope_type"] == "llama3" else ()
            if self.scaling.setdefault(key, scaling) != scaling:
                raise ValueError("the draft model has the same RoPE, but scales it differently")
            self.missed |= {key} if scaling else set()

    def __call__(self, dims: int, seq_len: int, base: float) -> mx.array:
        """Return seq_len x D/2 angles, as `rotation_angles`."""
        key = dims, seq_len, base
        self.missed -= {key}
        if not (scaling := self.scaling.get(key)):
            return self.plain(dims, seq_len, base)
        return mx.arange(seq_len, dtype=mx.float32)[:, None] * llama3_frequencies(dims, base, *scaling)
