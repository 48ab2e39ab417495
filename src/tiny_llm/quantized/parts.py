"""Layer factory for 4-bit or 8-bit matrices: taken from a quantized checkpoint, or quantized at load time."""

from collections.abc import Callable
from typing import Any, Self

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.parts import Dense, Projection
from .layers import QuantizedEmbedding, QuantizedLinear
from .least_squares import quantize_least_squares

Packed = tuple[mx.array, mx.array, mx.array]
STRIP = 4096  # rows quantized at a time: the intermediate arrays take many times the memory of the rows
Quantizer = Callable[[mx.array, int, int], Packed]


class Quantized(Dense):
    """`Dense` with quantized matrices. A matrix whose rows are not whole groups stays unquantized."""

    linear, table = QuantizedLinear, QuantizedEmbedding  # a subclass may multiply by other kernels

    def __init__(self, group_size: int = 64, bits: int = 4, by: Quantizer = quantize_least_squares) -> None:
        """Store how matrices are, or will be, quantized.

        Args:
            group_size: weights per group.
            bits: per weight, 4 or 8.
            by: `quantize`, or a function with the same signature.
        """
        self.group_size, self.bits, self.by = group_size, bits, by

    @classmethod
    def like(cls, config: ModelConfig, weights: dict[str, mx.array]) -> Self:
        """Return the factory for a checkpoint's format, read off its embedding; 4 bits, groups of 64 if unquantized."""
        name = "model.embed_tokens"
        if f"{name}.scales" not in weights:
            return cls()
        words, groups = (weights[f"{name}.{part}"].shape[-1] for part in ("weight", "scales"))
        return cls(config.hidden_size // groups, 32 * words // config.hidden_size)

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """As `Dense`. An already quantized matrix has `name.scales` and `name.biases` beside `name.weight`."""
        if (packed := self.packed(weights, name)) is None:
            return super().projection(weights, name, bias)
        own = weights[f"{name}.bias"] if bias else None
        return self.linear(*packed, self.group_size, self.bits, own)

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> Any:
        """As `Dense`. Vectors from a quantized table have the dtype of the model's norms."""
        if (packed := self.packed(weights, name)) is None:
            return super().embedding(weights, name, config)
        return self.table(*packed, self.group_size, self.bits, weights["model.norm.weight"].dtype)

    def packed(self, weights: dict[str, mx.array], name: str) -> Packed | None:
        """Return a matrix in `quantize`'s layout, quantizing it if needed; None if its rows are not whole groups."""
        w = weights[f"{name}.weight"]
        if f"{name}.scales" in weights:
            return w, weights[f"{name}.scales"], weights[f"{name}.biases"]
        if w.shape[-1] % self.group_size:
            return None
        strips = []
        for at in range(0, len(w), STRIP):
            strips.append(self.by(w[at : at + STRIP], self.group_size, self.bits))
            mx.eval(strips[-1])  # frees the intermediate arrays
        words, scales, biases = (mx.concatenate(list(parts)) for parts in zip(*strips, strict=True))
        return words, scales, biases
