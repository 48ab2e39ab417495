"""A check of the acceptance rule: evenly spaced samples give exact frequencies, so no verdict is random."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from math import prod

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
    for target, draft in _models():
        assert _found(accept, target, draft) == _due(target, draft), "an output comes too often, or too seldom"
    # Rounding has left no residual: the next token is sampled from the target's row.
    for number, token in ((0.25, 0), (0.75, 1)):
        rows = mx.array([[0.5, 0.5], [0.0, 1.0]]), mx.array([[0.5, 0.5625]])
        assert tuple(accept(*rows, [1], [0.9375, number])) == (0, token), "no residual, and not sampled from the target"
    two, three = mx.full((2, 4), 0.25), mx.full((3, 4), 0.25)
    for p, q, uniforms in ((two, two, 3), (mx.full((4, 4), 0.25), two, 3), (three, two, 2), (three, two, 4)):
        _is_refused(accept, p, q, [0.25] * uniforms)
    _is_refused(accept, two, two, [0.25] * 2)  # as many rows as samples, but too few for two tokens
    _is_refused(accept, two, two[:0], [0.25] * 3, tokens=0)
    for shape in ((1, 4), (3, 4), (2, 3)):
        _is_refused(accept, three, mx.full(shape, 0.25), [0.25] * 3)


def _models() -> Iterator[tuple[Rows, Rows]]:
    """Yield rows of target and draft in which p, q, p / q and max(p - q, 0) are sums of halves, quarters and eighths.

    Some tokens are impossible for the target, some for the draft, and some have the same probability in both.
    """
    last = [0.5, 0.0, 0.25, 0.25]
    yield [last], []  # no draft tokens
    for first in ([0.125, 0.125, 0.375, 0.375], [0.0, 0.25, 0.375, 0.375]):
        yield [first, last], [[0.5, 0.25, 0.25, 0.0]]
    yield [[0.25, 0.25, 0.5], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]], [[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]


def _found(accept: Accept, target: Rows, draft: Rows) -> dict[tuple[int, ...], float]:
    """Return the frequency of each output over all drafts, weighted by the draft's probabilities, and all samples."""
    found: Counter[tuple[int, ...]] = Counter()
    size = len(target[0])
    arrays = mx.array(target), mx.array(draft).reshape(len(draft), size)
    # In steps from 0, so that some equal p / q, which is not below it. The last one lies between all boundaries.
    steps = 4 if len(draft) < 2 else 2
    judging, last = [i / steps for i in range(steps)], [(i + 0.5) / (2 * steps) for i in range(2 * steps)]
    numbers = list(product(*[judging] * len(draft), last))
    for draft_tokens in product(*([token for token in range(size) if row[token]] for row in draft)):
        weight = prod(row[token] for row, token in zip(draft, draft_tokens, strict=True))
        for uniforms in numbers:
            accepted, then = accept(*arrays, list(draft_tokens), list(uniforms))
            assert 0 <= accepted <= len(draft_tokens), f"{accepted} of {len(draft_tokens)} accepted"
            found[*draft_tokens[:accepted], then] += weight / len(numbers)  # type: ignore[assignment] # which is exact
    return dict(found)


def _due(target: Rows, draft: Rows) -> dict[tuple[int, ...], float]:
    """Return each output's exact probability: min(p, q) for each accepted token, times the residual of the next one."""
    size, due = len(target[0]), {}
    nothing = [0.0] * size  # the draft's row where all are accepted
    for accepted, (p, q) in enumerate(zip(target, [*draft, nothing], strict=True)):
        for text in product(range(size), repeat=accepted + 1):
            rows = zip(target, draft, text[:accepted], strict=False)
            due[text] = prod(min(p[x], q[x]) for p, q, x in rows) * max(p[text[-1]] - q[text[-1]], 0)
    return {text: share for text, share in due.items() if share}


def _is_refused(accept: Accept, target: mx.array, draft: mx.array, uniforms: list[float], tokens: int = 2) -> None:
    """Check that sizes which do not fit the draft tokens raise a ValueError."""
    try:
        accept(target, draft, [1, 2][:tokens], uniforms)
    except ValueError:
        return
    raise AssertionError(f"takes {target.shape}, {draft.shape} and {len(uniforms)} uniforms for {tokens} tokens")
