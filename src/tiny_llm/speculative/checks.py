"""A check of the acceptance rule: evenly spaced samples give exact frequencies, so no verdict is random."""

from collections.abc import Callable

import mlx.core as mx

Accept = Callable[[mx.array, mx.array, list[int], list[float]], tuple[int, int]]
Rows = list[list[float]]


def check_accept(accept: Accept) -> None:
    """Pass if a program does what the docstring of `accept` promises, and raise if it does not.

    That docstring is the whole specification: a correct program may compute in another way, and may do anything for
    arguments that it excludes. All uniform samples are arguments, so a program always gets the same verdict.

    Args:
        accept: called as accept(target, draft, draft_tokens, uniforms), with arrays and lists; returns two ints.

    Raises:
        Exception: the program is wrong; any exception but NotImplementedError counts, and `assert` raises one. The
            return value is ignored.
    """
    raise NotImplementedError("3.C Write the checks of a sampling rule")
