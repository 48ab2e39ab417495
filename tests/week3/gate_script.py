"""Scripts for a gate: timed arrivals and departures, and their results by formula."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

# an op is a time, "enter" or "leave", and a count

Op = tuple[float, str, int]
TOO_MANY = -1000  # a ValueError


def passes(program: Any, most: int, ops: Sequence[Op]) -> list[int]:
    """Return the number inside after each op; for a rejection, minus its Retry-After, or TOO_MANY."""
    clock = [0.0]
    gate, found = program(most, lambda: clock[0]), []
    for at, what, count in ops:
        clock[0] = at
        try:
            getattr(gate, what)(count)
            found.append(gate.inside)
        except ValueError:
            found.append(TOO_MANY)
        except Exception as error:
            if not hasattr(error, "seconds"):
                raise
            found.append(-error.seconds)
    return found


def passes_by_formula(most: int, ops: Sequence[Op]) -> list[int]:
    """The same by the docstring."""
    inside, left, promised, found = 0, list[Fraction](), list[tuple[Fraction, int]](), []
    for at, what, count in ops:
        now = Fraction(at)
        if what == "leave":
            inside, left = inside - count, (left + [now] * count)[-16:]
        elif count > most:
            found.append(TOO_MANY)
            continue
        elif inside + count <= most:
            inside += count
        else:
            pace = (now - left[0]) / len(left) if left else Fraction(1)
            places = inside + count - most + sum(n for until, n in promised if until > now)
            promised.append((now + places * pace, count))
            estimate = max(1, math.ceil(places * pace))
            found.append(-(estimate if estimate <= 60 else 30 + estimate % 30))
            continue
        found.append(inside)
    return found


def random_ops(seed: int, most: int, length: int) -> list[Op]:
    """Draw arrivals and departures at times that rounding cannot reorder."""
    draw, at, inside, ops = random.Random(seed), 0.0, 0, list[Op]()
    while len(ops) < length:
        at += draw.choice((0.0, 0.37, 1.013, 4.219))
        if inside and draw.random() < 0.45:
            count = draw.randint(1, min(3, inside))
            op = at, "leave", count
        else:
            op = at, "enter", draw.randint(1, min(3, most))
        ops.append(op)
        if passes_by_formula(most, ops) != passes_by_formula(most, [(t * (1 + 1e-9), *rest) for t, *rest in ops]):  # type: ignore[misc]
            ops.pop()
            continue
        inside = next(n for n in reversed([0, *passes_by_formula(most, ops)]) if n >= 0)
    return ops
