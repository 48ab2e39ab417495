"""Gradient accumulation: the gradient of a large batch, from micro-batches that fit in memory."""

from collections.abc import Callable, Sequence

import mlx.core as mx

from ..dataset.loss import count_targets
from ..dataset.packing import Rows

Params = dict[str, mx.array]
LossAndGrads = Callable[[Params, Rows], tuple[mx.array, Params]]


def accumulate_gradients(
    loss_and_grads: LossAndGrads, params: Params, micro_batches: Sequence[Rows]
) -> tuple[mx.array, Params]:
    """Return the loss and gradients of one large batch, computed one micro-batch at a time.

    Args:
        loss_and_grads: called once per micro-batch with params and the micro-batch, in order. Returns the mean loss
            over the micro-batch's counted targets, a scalar, and its gradients by the names of params.
        params: the parameters by name.
        micro_batches: packed rows. A target counts if `count_targets` counts it; micro-batches may have different
            numbers of counted targets, some of them none.

    Returns:
        The mean loss over the counted targets of all micro-batches, a float32 scalar, and the gradients of this loss,
        by the same names, each in the dtype that loss_and_grads returns. Sums are float32 for all dtypes. If no target
        counts, both are zero. Each micro-batch is evaluated (`mx.eval`) before the next call, so that its activations
        are freed. The arguments are not changed, nor are the arrays that loss_and_grads returns.

    Raises:
        ValueError: there is no micro-batch.

    Source: the mean over all targets, as in transformers' `Trainer` since 4.46 (`num_items_in_batch`).
    """
    if not micro_batches:
        raise ValueError("there is no micro-batch, but at least one is needed")
    counts = [count_targets(batch.targets) for batch in micro_batches]
    total = mx.maximum(sum(counts[1:], start=counts[0]), 1)
    loss = mx.array(0.0)
    sums: Params = {}
    dtypes: dict[str, mx.Dtype] = {}
    for batch, count in zip(micro_batches, counts, strict=True):
        share = count.astype(mx.float32) / total  # of all counted targets
        own_loss, own_grads = loss_and_grads(params, batch)
        loss = loss + share * own_loss
        dtypes = {name: grad.dtype for name, grad in own_grads.items()}
        parts = {name: share * grad.astype(mx.float32) for name, grad in own_grads.items()}
        sums = {name: sums[name] + part for name, part in parts.items()} if sums else parts
        mx.eval(loss, sums)
    return loss, {name: grad.astype(dtypes[name]) for name, grad in sums.items()}
