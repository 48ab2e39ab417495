"""The quantized engine with its products computed by the kernels."""

import mlx.core as mx

from ..config import ModelConfig
from ..quantized.layers import QuantizedEmbedding, QuantizedLinear
from ..quantized.parts import Quantized
from ..qwen3_cached.model import Qwen3CachedModel
from .ops import BITS, unchecked_matmul


class KernelLinear(QuantizedLinear):
    """`QuantizedLinear`, computed by the kernels if W has 4 bits."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return x @ W.T + b, from N.. x I to N.. x O."""
        if self.bits != BITS:
            return super().__call__(x)
        y = unchecked_matmul(x, self.packed, self.scales, self.biases, self.group_size)
        return y if self.bias is None else y + self.bias.astype(x.dtype)


class KernelEmbedding(QuantizedEmbedding):
    """`QuantizedEmbedding` with its output head computed by the kernels if the table has 4 bits."""

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table, from N.. x E to N.. x V."""
        if self.bits != BITS:
            return super().as_linear(x)
        return unchecked_matmul(x, self.packed, self.scales, self.biases, self.group_size)


class KernelParts(Quantized):
    """`Quantized` with 4-bit matrices multiplied by the kernels."""

    linear, table = KernelLinear, KernelEmbedding


class Qwen3KernelModel(Qwen3CachedModel):
    """`Qwen3QuantizedModel` with its products computed by the kernels."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        """Build the layers, as `Qwen3QuantizedModel` does."""
        super().__init__(config, weights, KernelParts.like(config, weights))
