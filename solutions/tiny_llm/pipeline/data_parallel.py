"""Data-parallel training: each rank has all parameters, and some of the micro-batches. Given."""

import itertools

import mlx.core as mx

from ..dataset.loss import count_targets
from ..dataset.packing import Rows
from ..distributed.group import Group
from ..training.accumulation import LossAndGrads, Params


def data_parallel(loss_and_grads: LossAndGrads, group: Group) -> LossAndGrads:
    """Return a function as `accumulate_gradients` takes it, whose batch is shared by the ranks.

    All ranks call it with the same batch. Each computes its own rows, and one all-reduce adds up the gradients of all:
    the loss and the gradients are those of the whole batch, up to rounding, and the same on every rank.
    """

    def loss_and_grads_of_all(params: Params, batch: Rows) -> tuple[mx.array, Params]:
        n, rank, ranks = len(batch), group.rank, group.size
        own = batch[n * rank // ranks : n * (rank + 1) // ranks]
        loss, grads = loss_and_grads(params, own) if len(own) else (mx.array(0.0), params)
        count = count_targets(own.targets).astype(mx.float32)
        # Ranks may count different numbers of targets: add up sums, and divide once.
        arrays = [loss, *(grads[name] for name in params)]
        flat = mx.concatenate([count[None], *(count * each.flatten().astype(mx.float32) for each in arrays)])
        total = group.all_sum(flat)
        ends = list(itertools.accumulate(each.size for each in arrays))
        mean, *means = mx.split(total[1:] / mx.maximum(total[0], 1), ends[:-1])
        return mean.reshape(()), {
            name: each.reshape(params[name].shape).astype(grads[name].dtype)
            for name, each in zip(params, means, strict=True)
        }

    return loss_and_grads_of_all
