"""A model's matrices in 4 or 8 bits: of a checkpoint that has them so, or quantized as the model is built."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.parts import Dense, Projection
from .layers import QuantizedEmbedding, QuantizedLinear
from .least_error import quantize_with_least_error

Packed = tuple[mx.array, mx.array, mx.array]
STRIP = 4096  # rows that are quantized at a time: on the way, they take many times their room
Quantizer = Callable[[mx.array, int, int], Packed]


class Quantized(Dense):
    """Makes what `Dense` makes, of quantized matrices; rows that do not make whole groups stay as they are."""

    def __init__(self, group_size: int = 64, bits: int = 4, by: Quantizer = quantize_with_least_error) -> None:
        """Say how to quantize, or how it was done.

        Args:
            group_size: how many neighbours share a scale and a bias.
            bits: of a weight, 4 or 8.
            by: `quantize`, or another function like it.
        """
        self.group_size, self.bits, self.by = group_size, bits, by

    @classmethod
    def like(cls, config: ModelConfig, weights: dict[str, mx.array]) -> "Quantized":
        """As the checkpoint's embedding is quantized, and with it all matrices; 4 bits in groups of 64 if it is not."""
        name = "model.embed_tokens"
        if f"{name}.scales" not in weights:
            return cls()
        words, groups = (weights[f"{name}.{part}"].shape[-1] for part in ("weight", "scales"))
        return cls(config.hidden_size // groups, 32 * words // config.hidden_size)

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """As `Dense`. A matrix that is quantized already has `name.scales` and `name.biases` beside `name.weight`."""
        if (packed := self.packed(weights, name)) is None:
            return super().projection(weights, name, bias)
        own = weights[f"{name}.bias"] if bias else None
        return QuantizedLinear(*packed, self.group_size, self.bits, own)

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> Any:
        """As `Dense`. The vectors of a quantized one have the dtype of the model's norms."""
        if (packed := self.packed(weights, name)) is None:
            return super().embedding(weights, name, config)
        return QuantizedEmbedding(*packed, self.group_size, self.bits, weights["model.norm.weight"].dtype)

    def packed(self, weights: dict[str, mx.array], name: str) -> Packed | None:
        """A matrix in the layout of `quantize`: as it is, or quantized now. None if its rows make no whole groups."""
        w = weights[f"{name}.weight"]
        if f"{name}.scales" in weights:
            return w, weights[f"{name}.scales"], weights[f"{name}.biases"]
        if w.shape[-1] % self.group_size:
            return None
        strips = []
        for at in range(0, len(w), STRIP):
            strips.append(self.by(w[at : at + STRIP], self.group_size, self.bits))
            mx.eval(strips[-1])  # what it took on the way is free again
        words, scales, biases = (mx.concatenate(list(parts)) for parts in zip(*strips, strict=True))
        return words, scales, biases
