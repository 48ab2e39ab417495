"""A check of attention, which must pass correct programs and fail wrong ones."""

from collections.abc import Callable

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_attention(attention: Attention) -> None:
    """Return if an attention does what `scaled_dot_product_attention_simple` promises; raise otherwise.

    Its docstring is the whole contract: a correct program need not compute or round as yours does, and may do anything
    with arguments that the docstring rules out.

    Args:
        attention: called as attention(query, key, value, scale=None, mask=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong. Any exception but NotImplementedError counts, such as that of `assert`; the
            return value is ignored.
    """
    raise NotImplementedError("1.C Write the checks")
