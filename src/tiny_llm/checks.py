"""Checks: what one runs to learn whether a program is right, and what a check must be like to be trusted."""

from collections.abc import Callable

import mlx.core as mx

Attention = Callable[..., mx.array]


def check_attention(attention: Attention) -> None:
    """Let an attention pass if it does what `scaled_dot_product_attention_simple` promises, and stop it if it does not.

    Its docstring is what is promised, no more and no less: a right program need not compute as yours does, nor round
    as yours does, and may do as it likes with what no caller may ask of it.

    Args:
        attention: called as attention(query, key, value, scale=None, mask=None), with arrays and plain values.

    Raises:
        Exception: the program is wrong; any will do but NotImplementedError, and `assert` raises one. What is returned
            does not count.
    """
    raise NotImplementedError("1.C Write the checks")
