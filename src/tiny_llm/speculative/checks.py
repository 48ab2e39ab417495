"""A check of a rule that draws: with numbers spread evenly, chances become counts, and no verdict is luck."""

from collections.abc import Callable

import mlx.core as mx

Accept = Callable[[mx.array, mx.array, list[int], list[float]], tuple[int, int]]
Rows = list[list[float]]


def check_accept(accept: Accept) -> None:
    """Let a rule pass if it does what `accept` promises, and stop it if it does not.

    Its docstring is what is promised, no more and no less: a right program need not compute as yours does, and may do
    as it likes with what no caller may ask of it. All numbers that it draws with are the caller's, so that the same
    program is always judged alike.

    Args:
        accept: called as accept(target, draft, drafted, draws), with arrays and lists, it gives two ints.

    Raises:
        Exception: the program is wrong; any will do but NotImplementedError, and `assert` raises one. What is returned
            does not count.
    """
    raise NotImplementedError("3.C Write the checks of a rule that draws")
