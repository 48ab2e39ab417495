"""Which tokens an automaton allows: one walk of the trie for the whole vocabulary."""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .trie import ROOT, Ints, TokenTrie, ranges


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
    nodes = np.array([ROOT], np.int32) if roots is None else np.asarray(roots, np.int32)
    states = np.full(len(nodes), state, np.int32)
    visited, accepting = list[Ints](), list[Ints]()
    while len(nodes):
        seen = np.flatnonzero(np.bincount(states))  # the distinct states of this level
        place = np.empty(seen[-1] + 1, np.int32)
        place[seen] = np.arange(len(seen))
        accepts = np.array([automaton.accepts(int(one)) for one in seen])
        if accepts.any():
            accepting.append(nodes[accepts[place[states]]])
        first, last = trie.first_child[nodes], trie.first_child[nodes + 1]
        children = ranges(first, last)
        if not len(children):
            break
        rows = np.stack([automaton.row(int(one)) for one in seen])
        after = rows[np.repeat(place[states], last - first), trie.byte[children]]
        alive = after >= 0
        nodes, states = children[alive], after[alive]
        visited.append(nodes)
    reached = np.concatenate(visited) if visited else nodes[:0]
    tokens = trie.tokens[ranges(trie.first_token[reached], trie.first_token[reached + 1])]
    bits = np.zeros(-(-trie.size // 32) * 32, np.uint8)
    bits[tokens] = 1
    mask = np.packbits(bits, bitorder="little").view(np.uint32)
    ends = np.sort(np.concatenate(accepting)) if accepting else nodes[:0]
    return Allowed(mask, ends)
