"""Cross-entropy, its gradient, and the units in which it is reported."""

import math

import mlx.core as mx

from ..basics import softmax
from .packing import IGNORE


def cross_entropy(logits: mx.array, targets: mx.array, ignore_index: int = IGNORE) -> mx.array:
    """Return the mean over the counted targets of -ln p(target), p being the softmax of the logits.

    Args:
        logits: N.. x V, float32, float16 or bfloat16; converted to float32 before anything is computed. Numbers of any
            size give a finite loss.
        targets: N.., integers from 0 to V - 1, or ignore_index where a position does not count: it then changes neither
            the loss nor its gradient, even if its logits are NaN.
        ignore_index: the target that is not counted.

    Returns:
        A scalar, float32, in nats per counted target; 0 if none counts. It can be differentiated and compiled: no
        number is read on the way. The arguments are not changed.

    Raises:
        ValueError: the shape of targets is not N... The message states the two, as (3,) and (3, 4) for logits
            of 3 x 4 x 7.

    Source: `mlx.nn.losses.cross_entropy`; `torch.nn.functional.cross_entropy`.
    """
    _check(logits, targets)
    counted = targets != ignore_index  # N..
    wide = mx.where(counted[..., None], logits.astype(mx.float32), 0.0)  # N.. x V: a NaN would get into the gradient
    labels = mx.where(counted, targets, 0)  # any valid index: what it selects is not counted
    chosen = mx.take_along_axis(wide, labels[..., None], axis=-1).squeeze(-1)  # N..: the targets' logits
    losses = mx.logsumexp(wide, axis=-1) - chosen  # N..: -ln p(target)
    return mx.sum(mx.where(counted, losses, 0.0)) / mx.maximum(mx.sum(counted), 1)


def cross_entropy_vjp(logits: mx.array, targets: mx.array, ignore_index: int = IGNORE) -> mx.array:
    """Return the gradient of `cross_entropy` with respect to the logits, by its formula.

    (softmax(logits) - one_hot(target)) / number of counted targets, and zeros where a target does not count, even if
    its logits are NaN.

    Args:
        logits: N.. x V, float32, float16 or bfloat16; converted to float32 before anything is computed.
        targets: N.., integers from 0 to V - 1, or ignore_index.
        ignore_index: the target that is not counted.

    Returns:
        N.. x V, in the dtype of logits; all zeros if no target counts. The arguments are not changed.

    Raises:
        ValueError: the shape of targets is not N... The message states the two, as (3,) and (3, 4) for logits
            of 3 x 4 x 7.

    Source: `mx.grad` of `mlx.nn.losses.cross_entropy`.
    """
    _check(logits, targets)
    counted = targets != ignore_index  # N..
    probabilities = softmax(logits.astype(mx.float32), axis=-1)  # N.. x V
    one_hot = targets[..., None] == mx.arange(logits.shape[-1])  # N.. x V
    gradient = (probabilities - one_hot) / mx.maximum(mx.sum(counted), 1)
    return mx.where(counted[..., None], gradient, 0.0).astype(logits.dtype)


def _check(logits: mx.array, targets: mx.array) -> None:
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"targets has shape {targets.shape}, but {logits.shape[:-1]} is needed")


def count_targets(targets: mx.array, ignore_index: int = IGNORE) -> mx.array:
    """Return the number of counted targets, a scalar of int32: the denominator of `cross_entropy`."""
    return mx.sum(targets != ignore_index)


def bits_per_byte(nats_per_token: float, tokens: int, num_bytes: int) -> float:
    """Convert a mean loss to bits per byte of text, which is comparable between tokenizers.

    Args:
        nats_per_token: mean loss per counted token.
        tokens: counted tokens.
        num_bytes: bytes of the text that these tokens encode, in UTF-8.
    """
    return nats_per_token * tokens / (math.log(2) * num_bytes)


def perplexity(nats_per_token: float) -> float:
    """Return exp(loss): the number of equally likely tokens that would have this loss."""
    return math.exp(nats_per_token)
