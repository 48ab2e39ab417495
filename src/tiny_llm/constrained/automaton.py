"""A rule's expression as a deterministic finite automaton over bytes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .expression import Expression

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
    raise NotImplementedError("7.1.1 Regular expressions to automata over bytes")
