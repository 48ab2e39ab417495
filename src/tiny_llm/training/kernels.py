"""The kernel of task 5.4.5, callable from Python: to try it, and for the checks. Training uses `fused.py`."""

from pathlib import Path

import mlx.core as mx
import numpy as np

from ..dataset.packing import IGNORE
from ..kernels import native


def cross_entropy_rows(
    logits: mx.array, targets: mx.array, scale: float = 1.0, ignored: int = IGNORE
) -> tuple[mx.array, mx.array]:
    """Return the loss of each row and the gradients of its logits, by the kernel `cross_entropy`.

    Args:
        logits: N x V, float32.
        targets: N, integers from 0 to V - 1, or `ignored` for a row that does not count.
        scale: the gradient of each row's loss, by which the gradients of its logits are multiplied.
        ignored: the target of rows that do not count.

    Returns:
        The losses, N, and the gradients, N x V, both float32; zeros for rows that do not count.
    """
    (rows, vocab), file = logits.shape, Path(native.__file__).with_name("cross_entropy.cpp")
    given = np.ascontiguousarray(np.array(logits)), np.ascontiguousarray(np.array(targets.astype(mx.int32)))
    results = native.Result((rows,)), native.Result((rows, vocab))
    made = native.run(file, "cross_entropy", [*given, *results, rows, vocab, ignored, float(scale)])
    return mx.array(made[0]), mx.array(made[1])
