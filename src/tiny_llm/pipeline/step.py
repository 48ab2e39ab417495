"""A training step over the stages of a pipeline."""

from collections.abc import Sequence

import mlx.core as mx

from ..dataset.packing import Rows
from ..distributed.group import Group
from ..training.model import Params
from .passes import Pass
from .stage import Stage


def pipeline_step(
    stage: Stage, params: Params, micro_batches: Sequence[Rows], order: Sequence[Pass], group: Group
) -> tuple[mx.array, Params]:
    """Run this rank's passes of a training step, and return the loss and the gradients of one large batch.

    All ranks call this with the same micro-batches, each with its own stage; stage r is rank r. Activations go to the
    right, gradients to the left. A forward pass computes `stage.forward` and sends its output; the last stage, whose
    `stage.backward` returns the loss, too, only keeps its input. A backward pass computes `stage.backward` with the
    gradient that arrives, and sends the gradient of the input. An input is held from the forward pass to the backward
    pass and no longer. The gradients of a backward pass are added up and evaluated (`mx.eval`) before the next pass.

    `group.send` may block until the other rank receives. To avoid a deadlock, a stage that runs a forward pass after a
    backward pass receives the input of the former before it sends the gradient of the latter: the stage before sends an
    activation first, and then waits for a gradient.

    Args:
        stage: this rank's.
        params: its parameters, as `stage.own` returns them.
        micro_batches: M packed rows, whose shapes and numbers of counted targets may differ; some may have none.
        order: this rank's 2 * M passes, as `one_forward_one_backward` or `gpipe` returns them for all ranks.
        group: the ranks, as many as there are stages. Only neighbors of the ring send to each other.

    Returns:
        On every rank the mean loss over the counted targets of all micro-batches, a float32 scalar, as
        `accumulate_gradients` returns it; and this stage's gradients of this loss by the names of params. If the first
        and the last stage each have a copy of a tied embedding (`stage.has_copy`), both return the sum of the two
        copies' gradients. If no target counts, loss and gradients are zero. The arguments are not changed.

    Source: Huang et al. 2019; Narayanan et al. 2021.
    """
    raise NotImplementedError("6.3.2 A training step over stages")
