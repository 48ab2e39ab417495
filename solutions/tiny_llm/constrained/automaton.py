"""A rule's expression as a deterministic finite automaton over bytes."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .expression import Call, Chars, Choice, Expression, Repeat, Sequence

MOST_STATES = 10_000  # of an automaton, and of a grammar: they bound time and memory of what a client asks for


@dataclass(frozen=True)
class DFA:
    """A deterministic finite automaton over bytes and rules, of S states; it starts in state 0.

    table: S x 256, int32; the state after each byte, -1 for none.
    calls: for each state, the rules that may begin there: pairs of a rule's name and the state after its text.
    accepting: whether a text may end in a state.
    """

    table: npt.NDArray[np.int32]
    calls: tuple[tuple[tuple[str, int], ...], ...]
    accepting: tuple[bool, ...]

    @cached_property
    def reads(self) -> tuple[bool, ...]:
        """Whether each state reads a byte itself, without a call."""
        return tuple(map(bool, np.asarray((self.table >= 0).any(axis=1))))

    def row(self, state: int) -> npt.NDArray[np.int32]:
        """Return the states after each byte, -1 for none: 256, int32."""
        row: npt.NDArray[np.int32] = self.table[state]
        return row

    def accepts(self, state: int) -> bool:
        """Return whether a text may end in a state."""
        return self.accepting[state]


def compile_rule(expression: Expression) -> DFA:
    """Return the automaton of an expression, over the bytes of its texts in UTF-8.

    A class of characters becomes sequences of byte ranges: "a" to "é" is 61 to 7F, C2 80 to BF, and C3 80 to A9.
    Surrogates, D800 to DFFF, have no UTF-8 encoding and are left out of every class. Build a nondeterministic automaton
    first. Then each state of the deterministic one is a set of its states, state 0 the set at the beginning. Each set
    that can be reached from state 0 is one state. A rule's name is one symbol beside the bytes: in one state, a byte
    and several rules may be possible.

    Args:
        expression: it is not changed. An empty class of characters derives no text.

    Raises:
        ValueError: it has more than MOST_STATES states, as for (a|b)*a(a|b){20}.

    Returns:
        The automaton. After state 0, the order of its states is free. It need not be minimal: states that accept the
        same texts, and states from which no text can be completed, may remain.

    Source: Thompson 1968; Rabin and Scott 1959 (the subset construction).
    """
    nfa = _NFA()
    start, end = nfa.state(), nfa.state()
    nfa.add(expression, start, end)
    first = nfa.closure({start})
    numbers, queue = {first: 0}, [first]
    rows, calls = [], []

    def number(states: set[int]) -> int:
        closed = nfa.closure(states)
        if closed not in numbers:
            if len(queue) == MOST_STATES:
                raise ValueError(f"the expression's automaton has more than {MOST_STATES} states")
            numbers[closed] = len(queue)
            queue.append(closed)
        return numbers[closed]

    for states in queue:  # grows while it is read
        ranges = [edge for state in states for edge in nfa.ranges[state]]
        row = np.full(256, -1, np.int32)
        cuts = sorted({first for first, _, _ in ranges} | {last + 1 for _, last, _ in ranges})
        for low, high in itertools.pairwise(cuts):
            if targets := {target for first, last, target in ranges if first <= low <= last}:
                row[low:high] = number(targets)
        after = defaultdict[str, set[int]](set)
        for state in states:
            for rule, target in nfa.calls[state]:
                after[rule].add(target)
        rows.append(row)
        calls.append(tuple((rule, number(targets)) for rule, targets in after.items()))
    return DFA(np.stack(rows), tuple(calls), tuple(end in states for states in queue))


class _NFA:
    def __init__(self) -> None:
        self.ranges: list[list[tuple[int, int, int]]] = []  # per state: first byte, last byte, target
        self.calls: list[list[tuple[str, int]]] = []
        self.empty: list[list[int]] = []  # moves that read nothing

    def state(self) -> int:
        self.ranges.append([])
        self.calls.append([])
        self.empty.append([])
        return len(self.empty) - 1

    def closure(self, states: set[int]) -> frozenset[int]:
        found, todo = set(states), list(states)
        while todo:
            for target in self.empty[todo.pop()]:
                if target not in found:
                    found.add(target)
                    todo.append(target)
        # Drop states with empty moves alone: of two sets that read the same, only one is numbered, and walked.
        return frozenset(state for state in found if self.ranges[state] or self.calls[state] or not self.empty[state])

    def add(self, part: Expression, start: int, end: int) -> None:
        if isinstance(part, Chars):
            for first, last in part.ranges:
                for sequence in _utf8_ranges(first, last):
                    at = start
                    for low, high in sequence[:-1]:
                        self.ranges[at].append((low, high, following := self.state()))
                        at = following
                    self.ranges[at].append((*sequence[-1], end))
        elif isinstance(part, Call):
            self.calls[start].append((part.rule, end))
        elif isinstance(part, Choice):
            for option in part.options:
                self.add(option, start, end)
        elif isinstance(part, Sequence):
            for each in part.parts:
                self.add(each, start, following := self.state())
                start = following
            self.empty[start].append(end)
        else:
            self._repeat(part, start, end)

    def _repeat(self, part: Repeat, start: int, end: int) -> None:
        for _ in range(part.least):
            self.add(part.part, start, following := self.state())
            start = following
        for _ in range((part.most or 0) - part.least):
            self.empty[start].append(end)
            self.add(part.part, start, following := self.state())
            start = following
        if part.most is None:
            loop = self.state()  # apart from `start`, which other options may leave
            self.empty[start].append(loop)
            self.add(part.part, loop, following := self.state())
            self.empty[following].append(loop)
            start = loop
        self.empty[start].append(end)


def _utf8_ranges(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """Yield sequences of byte ranges that together are the UTF-8 of the code points first to last."""
    if first <= 0xDFFF and last >= 0xD800:  # no surrogates
        yield from _utf8_ranges(first, 0xD7FF)
        yield from _utf8_ranges(0xE000, last)
        return
    if first > last:
        return
    # Cut where the number of bytes changes, and where a range does not cover all values of its last bytes.
    for limit in (0x7F, 0x7FF, 0xFFFF):
        if first <= limit < last:
            yield from _utf8_ranges(first, limit)
            yield from _utf8_ranges(limit + 1, last)
            return
    for bits in (6, 12, 18):
        low = (1 << bits) - 1
        if last > 0x7F and first & ~low != last & ~low:
            cut = (first | low) if first & low else (last & ~low) - 1 if last & low != low else None
            if cut is not None:
                yield from _utf8_ranges(first, cut)
                yield from _utf8_ranges(cut + 1, last)
                return
    yield list(zip(chr(first).encode(), chr(last).encode(), strict=True))
