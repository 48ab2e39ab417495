"""The engines on the kernels: the model with a cache, its products by kernels; and the fused one, a call a layer."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from ..config import ModelConfig
from ..qwen3_cached.model import Qwen3CachedModel
from ..qwen3_cached.parts import Dense, Projection
from .ops import quantized_matmul


class Quantized(NamedTuple):
    """A quantized matrix, O x I, and its arrays, as `mx.quantize` gives them."""

    packed: mx.array
    scales: mx.array
    biases: mx.array
    group_size: int

    @staticmethod
    def of(weights: dict[str, mx.array], name: str) -> "Quantized":
        """The matrix that a checkpoint has as `name.weight`, quantized here if it is not yet.

        Raises:
            KeyError: it is missing.
            ValueError: it is not quantized to 4 bits.
        """
        packed = weights[f"{name}.weight"]
        if f"{name}.scales" not in weights:
            return Quantized(*mx.quantize(packed, 64, 4), 64)
        scales, biases = weights[f"{name}.scales"], weights[f"{name}.biases"]
        return Quantized(packed, scales, biases, packed.shape[1] * 8 // scales.shape[1])

    @staticmethod
    def stacked(matrices: Sequence["Quantized"]) -> "Quantized":
        """One matrix with the rows of several: a product with it is the products of all, side by side."""
        packed, scales, biases = (mx.concatenate(arrays) for arrays in list(zip(*matrices, strict=True))[:3])
        return Quantized(packed, scales, biases, matrices[0].group_size)

    def __call__(self, x: mx.array, int8: bool = False) -> mx.array:
        """x @ W.T, from N.. x I to N.. x O."""
        return quantized_matmul(x, self.packed, self.scales, self.biases, self.group_size, int8=int8)

    def rows(self, index: mx.array) -> mx.array:
        """Some rows as floats, N.. x I for N.."""
        return mx.dequantize(self.packed[index], self.scales[index], self.biases[index], self.group_size, 4)


class QuantizedEmbedding:
    """A quantized table, V x E, of which the kernels make the head."""

    def __init__(self, table: Quantized) -> None:
        self.table = table

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look tokens up, N.. x E for N.."""
        return self.table.rows(tokens)

    def as_linear(self, x: mx.array) -> mx.array:
        """Compare vectors with every row of the table, N.. x V for N.. x E."""
        return self.table(x)


class KernelParts(Dense):
    """Quantized matrices, multiplied by the kernels."""

    def projection(self, weights: dict[str, mx.array], name: str, bias: bool = False) -> Projection:
        """The function x -> x @ W.T + b, as `Dense` has it."""
        matrix = Quantized.of(weights, name)
        if not bias:
            return matrix
        b = weights[f"{name}.bias"]
        return lambda x: matrix(x) + b

    def embedding(self, weights: dict[str, mx.array], name: str, config: ModelConfig) -> QuantizedEmbedding:
        """The quantized table."""
        return QuantizedEmbedding(Quantized.of(weights, name))


class Qwen3KernelModel(Qwen3CachedModel):
    """`Qwen3CachedModel`, with its products computed by the kernels from quantized matrices."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array]) -> None:
        super().__init__(config, weights, KernelParts())
