"""A compiled grammar with its masks, shared by all requests that use it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .automaton import DFA
from .completion import compile_rules
from .masks import Allowed, allowed_tokens
from .pushdown import Pushdown, Stack
from .schema import ROOT_RULE, schema_rules
from .trie import ROOT, TokenTrie
from .values import COMMON

Mask = npt.NDArray[np.uint32]
Within = dict[tuple[str, int], Allowed]  # by rule and state: the walk with nothing below
DEAD = -1  # the state after a token that is not allowed
MOST_GRAMMARS = 64
MOST_SETS = 20_000  # of stacks in one grammar: a recursive schema has new ones at every depth


class Grammar:
    """A grammar over a vocabulary."""

    def __init__(self, rules: Mapping[str, DFA], trie: TokenTrie, ends: Iterable[int], common: Within) -> None:
        """Store the rules.

        Args:
            rules: of which ROOT_RULE derives the whole text.
            trie: of the vocabulary.
            ends: the tokens that may follow a complete text.
            common: the walks of rules of COMMON, which all grammars share.
        """
        self.pushdown, self.trie = Pushdown(rules, ROOT_RULE), trie
        self.start = self.pushdown.start
        self._ends = np.zeros(-(-trie.size // 32), np.uint32)
        for token in ends:
            self._ends[token // 32] |= np.uint32(1 << token % 32)
        self._masks, self._own, self._common = dict[int, Mask](), Within(), common

    def mask(self, state: int) -> Mask:
        """Return the tokens that may follow in a state, as ceil(V / 32) words, computed once. Do not change it."""
        if state not in self._masks:
            mask = np.zeros_like(self._ends)
            for stack in self.pushdown.sets[state] if state != DEAD else ():
                mask |= self._of_stack(stack) if stack else self._ends
            self._masks[state] = mask
        return self._masks[state]

    def advance(self, state: int, token: int) -> int:
        """Return the state after a token of the trie; DEAD if the token is not allowed."""
        for byte in self.trie.bytes_of.get(token, b""):
            if state == DEAD:
                break
            state = int(self.pushdown.row(state)[byte])
        return state

    def _of_stack(self, stack: Stack) -> Mask:
        """Walk within the top rule, once for all stacks that have it, then on from the nodes where its text may end."""
        rule, at, below = stack  # type: ignore[misc] # not the empty one
        known = self._common if rule in COMMON else self._own
        if (rule, at) not in known:
            alone = self.pushdown.state([(rule, at, None)])
            known[rule, at] = allowed_tokens(self.trie, self.pushdown, alone)
        mask, ends = known[rule, at]
        ends = ends[ends != ROOT]  # if it may end here, the stack below is in the same set
        if below is None or not len(ends):
            return mask
        return mask | allowed_tokens(self.trie, self.pushdown, self.pushdown.state([below]), ends).mask


class GrammarCompiler:
    """Compiles schemas for one vocabulary, and keeps the last grammars."""

    def __init__(self, trie: TokenTrie, ends: Iterable[int]) -> None:
        """Store the vocabulary, and the tokens that may follow a complete text."""
        self.trie, self.ends = trie, tuple(ends)
        self._common, self._kept = Within(), dict[str, Grammar]()

    def compile(self, schema: Any) -> Grammar:
        """Return the grammar of a schema; an old one with its masks if the same schema was compiled before.

        Raises:
            ValueError: as `schema_rules` and `compile_rules` say.
        """
        key = json.dumps(schema)  # in the order of the properties, which is the order of the output
        grammar = self._kept.pop(key, None)
        if grammar is None or len(grammar.pushdown.sets) > MOST_SETS:
            grammar = Grammar(compile_rules(schema_rules(schema)), self.trie, self.ends, self._common)
        self._kept[key] = grammar  # the last one used is the last one
        if len(self._kept) > MOST_GRAMMARS:
            del self._kept[next(iter(self._kept))]
        return grammar
