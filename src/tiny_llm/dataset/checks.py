"""A check of a gradient that needs no other gradient: how much does the loss change if one logit does?"""

from collections.abc import Callable

import mlx.core as mx

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
    raise NotImplementedError("5.C Write the checks of a gradient")
