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
        inputs, described = packed.shape[-1] * 32 // bits, scales.shape[-1] * group_size
        if inputs != described:
            raise ValueError(f"packed has {inputs} weights per row, but scales and biases are for {described}")
        self.packed, self.scales, self.biases, self.bias = packed, scales, biases, bias
        self.group_size, self.bits = group_size, bits

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
        y = _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)
        return y if self.bias is None else y + self.bias.astype(x.dtype)


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
        self.packed, self.scales, self.biases = packed, scales, biases
        self.group_size, self.bits, self.dtype = group_size, bits, dtype or scales.dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        """Return the vectors of tokens.

        Args:
            tokens: N.., integers from 0 to V - 1.

        Returns:
            N.. x E: each token's row, scale * q + bias in float32, rounded once, to `dtype`. Other rows are not
            dequantized.
        """
        packed, scales, biases = (x[tokens] for x in (self.packed, self.scales, self.biases))
        wide = scales.astype(mx.float32)  # a row in the dtype of scales would be rounded twice
        return dequantize(packed, wide, biases, self.group_size, self.bits).astype(self.dtype)

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table: the output head of a model with tied embeddings.

        Args:
            x: N.. x E, float32, float16 or bfloat16.

        Returns:
            N.. x V, in x's dtype. Multiplication and accumulation are float32.

        Source: `mlx.nn.QuantizedEmbedding.as_linear`.
        """
        return _multiply(x, self.packed, self.scales, self.biases, self.group_size, self.bits)


def _multiply(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array, group_size: int, bits: int
) -> mx.array:
    wide, scales, biases = (v.astype(mx.float32) for v in (x, scales, biases))
    y = mx.quantized_matmul(wide, packed, scales, biases, transpose=True, group_size=group_size, bits=bits)
    return y.astype(x.dtype)
