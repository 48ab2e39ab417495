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
from .model import NormFunction, Operators, Params, TrainableModel


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
def fused_rms_norm(eps: float) -> NormFunction:
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


def fused_attend(query: mx.array, key: mx.array, value: mx.array, document_ids: mx.array) -> mx.array:
    """As `attend`, with document ids, N x L, in place of a mask."""
    attended: mx.array = fused_attention(query, key, value, document_ids)[0]  # type: ignore[index]
    return attended


FUSED = Operators(fused_rms_norm, fused_swiglu, fused_attend)  # type: ignore[arg-type]


def fused_loss_function(config: ModelConfig) -> Callable[[Params, Rows], mx.array]:
    """Return `loss_function` with the fused operators: the same loss and gradients, up to rounding."""

    def loss(params: Params, rows: Rows) -> mx.array:
        logits = TrainableModel(config, params, FUSED)(rows.tokens, rows.positions, rows.document_ids)
        return fused_cross_entropy(logits, rows.targets)  # type: ignore[return-value]

    return loss
