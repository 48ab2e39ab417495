"""The operators of training in C++, with their gradients, and the model that uses them. Given.

Each is a `mx.custom_function`: `mx.value_and_grad` and `mx.compile` take it like any of MLX's own. All arrays are
float32. They run on the CPU, on all cores.
"""

import functools
from collections.abc import Callable

import mlx.core as mx

from ..config import ModelConfig
from ..dataset.loss import count_targets
from ..dataset.packing import IGNORE, Rows
from ..kernels.ops import extension
from ..qwen3_cached.decoder import SwiGLU
from ..qwen3_cached.parts import Dense
from .model import PackedAttention, Params, TrainableModel, TrainableParts

Norm = Callable[[mx.array, mx.array], mx.array]


@mx.custom_function
def fused_cross_entropy(logits: mx.array, targets: mx.array) -> mx.array:
    """Return the mean loss over the counted targets, as `cross_entropy` does."""
    losses, _ = extension().cross_entropy(logits, targets, mx.array(1.0), IGNORE)
    return mx.sum(losses) / mx.maximum(count_targets(targets), 1)


@fused_cross_entropy.vjp
def _(inputs: tuple[mx.array, mx.array], dy: mx.array, _: mx.array) -> tuple[mx.array, mx.array]:
    logits, targets = inputs
    # One pass computes both. The gradients need dy, which the forward pass does not know: compute them here.
    _, gradients = extension().cross_entropy(logits, targets, dy / mx.maximum(count_targets(targets), 1), IGNORE)
    return gradients, mx.zeros_like(targets)


@functools.cache
def fused_rms_norm(eps: float) -> Norm:
    """Return the function of x and weight that computes `RMSNorm`."""

    @mx.custom_function
    def norm(x: mx.array, weight: mx.array) -> mx.array:
        y: mx.array = extension().rms_norm(x, weight, eps)
        return y

    @norm.vjp
    def _(inputs: tuple[mx.array, mx.array], dy: mx.array, _: mx.array) -> tuple[mx.array, ...]:
        return tuple(extension().rms_norm_vjp(*inputs, dy, eps))

    return norm  # type: ignore[return-value]


@mx.custom_function
def fused_swiglu(gate: mx.array, up: mx.array) -> mx.array:
    """Return silu(gate) * up."""
    y: mx.array = extension().swiglu(gate, up)
    return y


@fused_swiglu.vjp
def _(inputs: tuple[mx.array, mx.array], dy: mx.array, _: mx.array) -> tuple[mx.array, ...]:
    return tuple(extension().swiglu_vjp(*inputs, dy))


@mx.custom_function
def fused_attention(
    query: mx.array, key: mx.array, value: mx.array, document_ids: mx.array
) -> tuple[mx.array, mx.array]:
    """Return causal attention within documents, N x L x H x D, and each row's log-sum-exp, N x H x L.

    Args:
        query: N x L x H x D.
        key: N x L x H_kv x D.
        value: N x L x H_kv x D.
        document_ids: N x L, int32; a document is a run of equal ids.
    """
    y, log_sums = extension().packed_attention(query, key, value, document_ids)
    return y, log_sums


@fused_attention.vjp
def _(
    inputs: tuple[mx.array, ...], dy: tuple[mx.array, mx.array], outputs: tuple[mx.array, mx.array]
) -> tuple[mx.array, ...]:
    # Nothing uses the log-sums but this: they have no gradient.
    return *extension().packed_attention_vjp(*inputs, *outputs, dy[0]), mx.zeros_like(inputs[3])


class FusedNorm:
    """`RMSNorm` with the weight of one layer."""

    def __init__(self, weight: mx.array, eps: float) -> None:
        self.weight, self.norm = weight, fused_rms_norm(eps)

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise each vector along the last axis."""
        return self.norm(x, self.weight)


class FusedSwiGLU(SwiGLU):
    """`SwiGLU` by `fused_swiglu`."""

    def __call__(self, x: mx.array) -> mx.array:
        """Map N.. x E to N.. x E."""
        return self.down(fused_swiglu(self.gate(x), self.up(x)))  # type: ignore[arg-type]


class FusedAttention(PackedAttention):
    """`PackedAttention` by `fused_attention`."""

    def __init__(self, config: ModelConfig, weights: Params, parts: Dense) -> None:
        """Build the projections and norms, as `PackedAttention` does."""
        super().__init__(config, weights, parts)
        self.query_norm, self.key_norm = (  # type: ignore[assignment]
            FusedNorm(weights[f"self_attn.{name}_norm.weight"], config.rms_norm_eps) for name in "qk"
        )

    @staticmethod
    def attend(query: mx.array, key: mx.array, value: mx.array, mask: mx.array) -> mx.array:
        """As `PackedAttention.attend`, with document ids, N x L, in place of a mask."""
        attended: mx.array = fused_attention(query, key, value, mask)[0]  # type: ignore[index]
        return attended


class FusedModel(TrainableModel):
    """`TrainableModel` with the fused operators; called with document ids in place of a mask."""

    def __init__(self, config: ModelConfig, params: Params) -> None:
        """Build the layers, as `TrainableModel` does."""
        super().__init__(config, params)
        eps, parts = config.rms_norm_eps, TrainableParts()
        for number, layer in enumerate(self.layers):
            prefix = f"model.layers.{number}."
            own = {name.removeprefix(prefix): w for name, w in params.items() if name.startswith(prefix)}
            layer.attention, layer.mlp = FusedAttention(config, own, parts), FusedSwiGLU(own, parts)
            layer.attention_norm = FusedNorm(own["input_layernorm.weight"], eps)
            layer.mlp_norm = FusedNorm(own["post_attention_layernorm.weight"], eps)
        self.norm = FusedNorm(params["model.norm.weight"], eps)


def fused_loss_function(config: ModelConfig) -> Callable[[Params, Rows], mx.array]:
    """Return `loss_function` with the fused operators: the same loss and gradients, up to rounding."""

    def loss(params: Params, rows: Rows) -> mx.array:
        logits = FusedModel(config, params)(rows.tokens, rows.positions, rows.document_ids)
        return fused_cross_entropy(logits, rows.targets)  # type: ignore[return-value]

    return loss
