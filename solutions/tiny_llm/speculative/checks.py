"""A check of a rule that draws: with numbers spread evenly, chances become counts, and no verdict is luck."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from math import prod

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
    for target, draft in _models():
        assert _found(accept, target, draft) == _due(target, draft), "a text comes too often, or too seldom"
    # Rounding has left nothing of p - q: the next token is one of the target's.
    for number, token in ((0.25, 0), (0.75, 1)):
        rows = mx.array([[0.5, 0.5], [0.0, 1.0]]), mx.array([[0.5, 0.5625]])
        assert tuple(accept(*rows, [1], [0.9375, number])) == (0, token), "nothing is left, and it is not the target's"
    two, three = mx.full((2, 4), 0.25), mx.full((3, 4), 0.25)
    for p, q, draws in ((two, two, 3), (mx.full((4, 4), 0.25), two, 3), (three, two, 2), (three, two, 4)):
        _is_refused(accept, p, q, [0.25] * draws)
    for shape in ((1, 4), (3, 4), (2, 3)):
        _is_refused(accept, three, mx.full(shape, 0.25), [0.25] * 3)


def _models() -> Iterator[tuple[Rows, Rows]]:
    """Rows of target and draft, such that p, q, p / q and what is left of p - q are sums of halves, quarters, eighths.

    Some tokens are impossible for the target, some for the draft, and for some both are of one mind.
    """
    last = [0.5, 0.0, 0.25, 0.25]
    yield [last], []  # nothing drafted
    for first in ([0.125, 0.125, 0.375, 0.375], [0.0, 0.25, 0.375, 0.375]):
        yield [first, last], [[0.5, 0.25, 0.25, 0.0]]
    yield [[0.25, 0.25, 0.5], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]], [[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]


def _found(accept: Accept, target: Rows, draft: Rows) -> dict[tuple[int, ...], float]:
    """How often each text comes: all that can be drafted, as often as the draft does, with all numbers."""
    found: Counter[tuple[int, ...]] = Counter()
    size = len(target[0])
    arrays = mx.array(target), mx.array(draft).reshape(len(draft), size)
    # From 0 on in steps, so that some are just p / q, which is not below it. The last ones lie between all edges.
    steps = 4 if len(draft) < 2 else 2
    judging, last = [i / steps for i in range(steps)], [(i + 0.5) / (2 * steps) for i in range(2 * steps)]
    numbers = list(product(*[judging] * len(draft), last))
    for drafted in product(*([token for token in range(size) if row[token]] for row in draft)):
        weight = prod(row[token] for row, token in zip(draft, drafted, strict=True))
        for draws in numbers:
            stands, then = accept(*arrays, list(drafted), list(draws))
            assert 0 <= stands <= len(drafted), f"{stands} of {len(drafted)} stand"
            found[*drafted[:stands], then] += weight / len(numbers)  # type: ignore[assignment] # which is exact
    return dict(found)


def _due(target: Rows, draft: Rows) -> dict[tuple[int, ...], float]:
    """How often each text must come: its tokens stand with min(p, q) each, and the one behind them has what is left."""
    size, due = len(target[0]), {}
    nothing = [0.0] * size  # what is drafted where all stand
    for stands, (p, q) in enumerate(zip(target, [*draft, nothing], strict=True)):
        for text in product(range(size), repeat=stands + 1):
            rows = zip(target, draft, text[:stands], strict=False)
            due[text] = prod(min(p[x], q[x]) for p, q, x in rows) * max(p[text[-1]] - q[text[-1]], 0)
    return {text: share for text, share in due.items() if share}


def _is_refused(accept: Accept, target: mx.array, draft: mx.array, draws: list[float]) -> None:
    """Rows or numbers that do not fit two drafted tokens are a ValueError."""
    try:
        accept(target, draft, [1, 2], draws)
    except ValueError:
        return
    raise AssertionError(f"takes {target.shape}, {draft.shape} and {len(draws)} draws for two tokens")
