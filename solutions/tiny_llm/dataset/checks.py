"""A check of a gradient that needs no other gradient: how much does the loss change if one logit does?"""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Gradient = Callable[..., mx.array]


def check_cross_entropy_vjp(cross_entropy_vjp: Gradient) -> None:
    """Return if a gradient does what `cross_entropy_vjp` promises; raise otherwise.

    Its docstring is the whole contract: a correct program need not compute or round as yours does, and may do anything
    with arguments that the docstring rules out.

    Args:
        cross_entropy_vjp: called as cross_entropy_vjp(logits, targets, ignore_index=-100), with arrays and an integer.

    Raises:
        Exception: the program is wrong. Any exception but NotImplementedError counts, such as that of `assert`; the
            return value is ignored.
    """
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        # First sizes that are all equal: a wrong axis fits. Then sizes that all differ.
        for seed, (rows, length, size) in enumerate([(5, 5, 5), (2, 4, 7)]):
            logits = mx.random.normal((rows, length, size), key=mx.random.key(seed))
            targets = mx.random.randint(0, size, (rows, length), key=mx.random.key(seed + 10))
            ignored = mx.arange(length) % 3 == 1
            for ignore_index in (-100, 3, -1):
                labels = mx.where(ignored, ignore_index, targets)
                for factor, shift in ((1, 0), (100, 0), (1, 9e3)):
                    _agrees(cross_entropy_vjp, (logits * factor + shift).astype(dtype), labels, ignore_index)
    logits, targets = mx.zeros((2, 3)), mx.array([1, -100])
    assert not mx.any(cross_entropy_vjp(logits, mx.full(2, -100))).item(), "nothing counts, so nothing has a gradient"
    logits[1] = mx.nan
    gradient = cross_entropy_vjp(logits, targets)
    assert mx.allclose(gradient, mx.array([[1 / 3, -2 / 3, 1 / 3], [0, 0, 0]])), "NaN of an ignored position spreads"
    for shape in ((3, 2), (2, 1), (2, 3, 1)):
        try:
            mx.eval(cross_entropy_vjp(mx.zeros((2, 3, 4)), mx.zeros(shape, mx.int32)))
        except ValueError:
            continue
        raise AssertionError(f"takes targets of {shape} for logits of (2, 3, 4)")


def _agrees(cross_entropy_vjp: Gradient, logits: mx.array, targets: mx.array, ignore_index: int) -> None:
    """Assert the logits' shape and dtype, and the slopes of the loss within that dtype's rounding."""
    gradient = cross_entropy_vjp(logits, targets, ignore_index)
    assert gradient.shape == logits.shape, f"{gradient.shape}, not {logits.shape}"
    assert gradient.dtype == logits.dtype, f"{gradient.dtype}, not {logits.dtype}"
    expected = _slopes(np.array(logits.astype(mx.float32), np.float64), np.array(targets), ignore_index)
    # The result is rounded once to its dtype; float32 itself is coarse far from zero.
    allowed = 0.51 * mx.finfo(logits.dtype).eps * np.abs(expected)
    allowed += 1e-5 + mx.finfo(mx.float32).eps * float(np.abs(np.array(logits.astype(mx.float32))).max())
    assert np.all(np.abs(np.array(gradient.astype(mx.float32)) - expected) <= allowed), "the slopes of the loss differ"


def _slopes(logits: NDArray[np.float64], targets: NDArray[np.int32], ignore_index: int) -> NDArray[np.float64]:
    """Return the difference quotients of the mean loss in float64, for a small step of each logit both ways."""
    counted = targets != ignore_index
    chosen = np.arange(logits.shape[-1]) == targets[..., None]  # N.. x V

    def losses(moved: NDArray[np.float64]) -> NDArray[np.float64]:
        top = moved.max(axis=-1, keepdims=True)
        sums = np.log(np.exp(moved - top).sum(axis=-1)) + top[..., 0]
        mean: NDArray[np.float64] = np.where(counted, sums - (moved * chosen).sum(axis=-1), 0.0) / max(counted.sum(), 1)
        return mean

    step, slopes = 1e-3, np.zeros_like(logits)
    for index in range(logits.shape[-1]):
        nudge = step * (np.arange(logits.shape[-1]) == index)
        slopes[..., index] = (losses(logits + nudge) - losses(logits - nudge)) / (2 * step)
    return slopes
