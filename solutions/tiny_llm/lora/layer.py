"""LoRA: a projection whose matrix stays as it is, plus an update of low rank that is trained."""

import mlx.core as mx

from ..basics import linear


class LoRALinear:
    """y = x W.T + bias + alpha / r * (x A.T) B.T. Letters: I inputs, O outputs, r the rank."""

    def __init__(self, w: mx.array, a: mx.array, b: mx.array, alpha: float, bias: mx.array | None = None) -> None:
        """Store the matrices.

        Args:
            w: O x I, the pretrained weights, laid out as `linear` takes them.
            a: r x I.
            b: O x r. With zeros, as at the start of training, the layer is the pretrained one.
            alpha: the update is multiplied by alpha / r.
            bias: O, or None.

        Raises:
            ValueError: a or b does not fit w or the other. The message states the shapes of all three.
        """
        outputs, inputs = w.shape
        rank = a.shape[0]
        if a.shape != (rank, inputs) or b.shape != (outputs, rank):
            raise ValueError(f"w {w.shape} needs a of r x {inputs} and b of {outputs} x r, not {a.shape} and {b.shape}")
        self.w, self.a, self.b, self.bias = w, a, b, bias
        self.scale = alpha / rank

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply by W and by the update, without forming the O x I product B A.

        Args:
            x: N.. x I.

        Returns:
            N.. x O, in the dtype that x and w share, even if a and b are float32. The arguments are not changed.

        Source: Hu et al. 2021, section 4.1; `mlx_lm.tuner.lora.LoRALinear`; `peft.tuners.lora.Linear`.
        """
        y = linear(x, self.w, self.bias)  # N.. x O
        update = linear(linear(x, self.a), self.b)  # N.. x r, N.. x O
        return y + (self.scale * update).astype(y.dtype)

    def merged(self) -> mx.array:
        """Return the one matrix W + alpha / r * B A that replaces the three, O x I, in w's dtype.

        It is computed in float32 and rounded once. w is not changed.
        """
        update = self.scale * (self.b.astype(mx.float32) @ self.a.astype(mx.float32))  # O x I
        return (self.w.astype(mx.float32) + update).astype(self.w.dtype)
