"""A learning-rate schedule: linear warm-up, then a cosine."""

import math


def warmup_cosine(step: int, peak: float, warmup: int, total: int, floor: float = 0.0) -> float:
    """Return the learning rate of one step.

    Args:
        step: the step's number, counted from 1, as AdamW counts.
        peak: the largest learning rate.
        warmup: the number of steps in which the rate rises linearly from 0 to peak, which it has at step `warmup`; 0
            means no warm-up.
        total: the step that has `floor`. From `warmup` to `total` the rate falls along half a cosine.
        floor: the learning rate from `total` on.

    Returns:
        The learning rate, a Python float: peak * step / warmup during the warm-up; then floor + (peak - floor) *
        (1 + cos(pi * progress)) / 2, where progress rises linearly from 0 at `warmup` to 1 at `total`; then floor.

    Raises:
        ValueError: step is negative, warmup is not in 0 .. total - 1, or floor is not in 0 .. peak. The message states
            the numbers.

    Source: Loshchilov and Hutter 2017; `mlx.optimizers.cosine_decay` after `mlx.optimizers.linear_schedule`;
    transformers' `get_cosine_with_min_lr_schedule_with_warmup`.
    """
    if step < 0:
        raise ValueError(f"step is {step}, but it must not be negative")
    if not 0 <= warmup < total:
        raise ValueError(f"warmup is {warmup}, but a number from 0 to below total = {total} is needed")
    if not 0 <= floor <= peak:
        raise ValueError(f"floor is {floor}, but a number from 0 to peak = {peak} is needed")
    if step < warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
