"""Which tokens an automaton allows: one walk of the trie for the whole vocabulary."""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .trie import Ints, TokenTrie


class Automaton(Protocol):
    """What a walk needs of a DFA, or of a pushdown automaton."""

    def row(self, state: int) -> Ints:
        """Return the states after each byte, -1 for none: 256, int32."""

    def accepts(self, state: int) -> bool:
        """Return whether a text may end in a state."""


class Allowed(NamedTuple):
    """The result of a walk: the allowed tokens, and the nodes at which the automaton's text may end."""

    mask: npt.NDArray[np.uint32]  # ceil(V / 32) words
    ends: Ints  # in ascending order


def allowed_tokens(trie: TokenTrie, automaton: Automaton, state: int, roots: Ints | None = None) -> Allowed:
    """Walk the trie from a state, and return the tokens that the automaton reads to their end.

    The walk visits only children of nodes that it has reached: if no token may begin with a byte, none of the tokens
    that begin with it is looked at. `automaton.row` and `automaton.accepts` are called once for each state of a level
    at most, and never for -1; a row may be longer to compute than to read.

    Args:
        trie: of the vocabulary.
        automaton: any; its states are numbers from 0.
        state: in which the automaton is at the roots.
        roots: any number of distinct nodes at which the walk starts, even none, and none below another; None for the
            root alone. A token that ends in one of the roots is not allowed by this walk.

    Returns:
        The mask, token t being bit t % 32 of word t // 32, and bits from V on 0; and `ends`, the visited nodes in which
        the automaton accepts, in ascending order. A node counts as visited if the automaton has a state there; the
        roots count, too.
    """
    raise NotImplementedError("7.1.2 Token masks")
