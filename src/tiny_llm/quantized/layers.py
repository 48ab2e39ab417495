"""Layers whose matrix stays packed: it is unpacked during the product and never materialized."""

import mlx.core as mx

from .affine import dequantize


class QuantizedLinear:
    """x @ W.T + b with a quantized W."""

    def __init__(
        self,
        packed: mx.array,
        scales: mx.array,
        biases: mx.array,
        group_size: int = 64,
        bits: int = 4,
        bias: mx.array | None = None,
    ) -> None:
        """Store the arrays as given: the matrix stays packed.

        Args:
            packed: O x (I * bits / 32), uint32, as returned by `quantize`.
            scales: O x (I / group_size), float32, float16 or bfloat16.
            biases: as scales: the groups' biases.
            group_size: weights per group.
            bits: per weight, 4 or 8.
            bias: O, in any float dtype: the layer's b; None adds nothing.

        Raises:
            ValueError: packed and scales imply different I. The message states both.
        """
        raise NotImplementedError("2.3.6 Quantized linear layer")

    def __call__(self, x: mx.array) -> mx.array:
        """Return x @ W.T + b.

        Args:
            x: N.. x I, float32, float16 or bfloat16, with any number of leading dimensions.

        Returns:
            N.. x O, in x's dtype. Multiplication and accumulation are float32 for all dtypes.

        Raises:
            ValueError: x's last dimension is not I.

        Source: `mx.quantized_matmul`, in float32. `mlx.nn.QuantizedLinear` calls it in x's dtype, which is inaccurate
        on a CPU.
        """
        raise NotImplementedError("2.3.6 Quantized linear layer")


class QuantizedEmbedding:
    """An embedding table that stays packed; only the rows looked up are dequantized."""

    def __init__(
        self,
        packed: mx.array,
        scales: mx.array,
        biases: mx.array,
        group_size: int = 64,
        bits: int = 4,
        dtype: mx.Dtype | None = None,
    ) -> None:
        """Store the arrays as given: the table stays packed.

        Args:
            packed: V x (E * bits / 32), uint32, as returned by `quantize`.
            scales: V x (E / group_size), float32, float16 or bfloat16.
            biases: as scales.
            group_size: weights per group.
            bits: per weight, 4 or 8.
            dtype: of the returned vectors; None for scales' dtype.
        """
        raise NotImplementedError("2.3.7 Quantized embedding")

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the vectors of tokens.

        Args:
            tokens: N.., integers from 0 to V - 1.

        Returns:
            N.. x E: each token's row, scale * q + bias in float32, rounded once, to `dtype`. Other rows are not
            dequantized.
        """
        raise NotImplementedError("2.3.7 Quantized embedding")

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table: the output head of a model with tied embeddings.

        Args:
            x: N.. x E, float32, float16 or bfloat16.

        Returns:
            N.. x V, in x's dtype. Multiplication and accumulation are float32.

        Source: `mlx.nn.QuantizedEmbedding.as_linear`.
        """
        raise NotImplementedError("2.3.7 Quantized embedding")
