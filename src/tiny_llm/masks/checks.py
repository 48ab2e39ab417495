"""A check of attention with masks: most mistakes show only in rows that a test must include on purpose."""

from collections.abc import Callable

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_masked_attention(attention: Attention) -> None:
    """Return if an attention does what `masked_attention` promises; raise otherwise.

    Its docstring is the whole contract: a correct program need not compute or round as yours does, and may do anything
    with arguments that the docstring rules out.

    Args:
        attention: called as attention(query, key, value, mask=None, scale=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong. Any exception but NotImplementedError counts, such as that of `assert`; the
            return value is ignored.
    """
    raise NotImplementedError("4.C Write the checks of masked attention")
