"""The quantized engine with its products computed by the kernels."""

from typing import Any

import mlx.core as mx

from ..config import ModelConfig
from ..quantized.layers import QuantizedEmbedding, QuantizedLinear
from ..quantized.parts import Quantized
from ..qwen3_cached.model import Qwen3CachedModel
from ..qwen3_cached.parts import Projection
from .ops import BITS, quantized_matmul


class KernelLinear(QuantizedLinear):
    """`QuantizedLinear`, computed by the kernels."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return x @ W.T + b, from N.. x I to N.. x O."""
        y = quantized_matmul(x, self.packed, self.scales, self.biases, self.group_size, self.bits)
        return y if self.bias is None else y + self.bias.astype(x.dtype)


class KernelEmbedding(QuantizedEmbedding):
    """`QuantizedEmbedding` with its output head computed by the kernels."""

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table, from N.. x E to N.. x V."""
        return quantized_matmul(x, self.packed, self.scales, self.biases, self.group_size, self.bits)


class KernelParts(Quantized):
    """`Quantized` with 4-bit matrices multiplied by the kernels."""

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """As `Dense`."""
        if self.bits != BITS or (packed := self.packed(weights, name)) is None:
            return super().projection(weights, name, bias)
        return KernelLinear(*packed, self.group_size, self.bits, weights[f"{name}.bias"] if bias else None)

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> Any:
        """As `Dense`."""
        if self.bits != BITS or (packed := self.packed(weights, name)) is None:
            return super().embedding(weights, name, config)
        return KernelEmbedding(*packed, self.group_size, self.bits, weights["model.norm.weight"].dtype)


class Qwen3KernelModel(Qwen3CachedModel):
    """`Qwen3QuantizedModel` with its products computed by the kernels."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers, as `Qwen3QuantizedModel` does."""
        super().__init__(config, weights, KernelParts.like(config, weights))
