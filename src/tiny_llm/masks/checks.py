"""A check of attention with masks: most of what can be wrong with it shows in a row that somebody has to think of."""

from collections.abc import Callable

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_masked_attention(attention: Attention) -> None:
    """Let an attention pass if it does what `masked_attention` promises, and stop it if it does not.

    Its docstring is what is promised, no more and no less: a right program need not compute as yours does, nor round
    as yours does, and may do as it likes with what no caller may ask of it.

    Args:
        attention: called as attention(query, key, value, mask=None, scale=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong; any will do but NotImplementedError, and `assert` raises one. What is returned
            does not count.
    """
    raise NotImplementedError("4.C Write the checks of a mask")
