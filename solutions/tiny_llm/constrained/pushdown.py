"""Rules that call each other, as one automaton: its states are sets of stacks."""

from collections.abc import Iterable, Mapping

import numpy as np

from .automaton import DFA
from .trie import Ints

# A rule's name, a state of its DFA, and the stack below, which continues when the rule's text ends; None if nothing
# is below. () is the empty stack: the whole text has ended.
Stack = tuple[str, int, "Stack | None"] | tuple[()]


class Pushdown:
    """A pushdown automaton that is made deterministic on the fly: state k is the k-th set of stacks that was found."""

    def __init__(self, rules: Mapping[str, DFA], start: str) -> None:
        """Store the rules.

        Args:
            rules: their automata, by name. Each rule that one of them calls is there. No rule calls itself at its
                beginning, directly or through others, and no rule derives the empty text.
            start: the rule that the whole text follows. It starts in state 0 with nothing below: `self.start`.
        """
        self.rules, self.sets, self.numbers = rules, list[frozenset[Stack]](), dict[frozenset[Stack], int]()
        self.rows = dict[int, Ints]()
        self.start = self.state([(start, 0, None)])

    def state(self, stacks: Iterable[Stack]) -> int:
        """Return the number of the state in which the text so far has led to one of these stacks.

        Until no stack is new: a stack whose top rule may end is also the stack below it, or (), the empty stack, if
        nothing is below. If the top state may call rules, each of them may begin: it becomes the top, in state 0, and
        below it the caller continues in the state after the call. Then drop the stacks whose top state reads no byte:
        of two different sets that read the same, only one is numbered.

        Returns:
            The index in `sets`: the old one, if the same set was found before.
        """
        todo = list(stacks)
        found = set(todo)
        while todo:
            stack = todo.pop()
            if not stack:
                continue
            rule, at, below = stack
            dfa = self.rules[rule]
            more: list[Stack] = [(callee, 0, (rule, after, below)) for callee, after in dfa.calls[at]]
            if dfa.accepting[at]:
                more.append(below or ())
            todo += [each for each in more if each not in found]
            found.update(more)
        key = frozenset(each for each in found if not each or self.rules[each[0]].reads[each[1]])
        if key not in self.numbers:
            self.numbers[key] = len(self.sets)
            self.sets.append(key)
        return self.numbers[key]

    def row(self, state: int) -> Ints:
        """Return the states after each byte, -1 where no stack reads it: 256, int32. It is computed once per state."""
        if state not in self.rows:
            stacks = [stack for stack in self.sets[state] if stack]
            row = np.full(256, -1, np.int32)
            known = dict[tuple[int, ...], int]()
            columns = np.stack([self.rules[rule].table[at] for rule, at, _ in stacks]) if stacks else row[None]
            for byte in np.flatnonzero((columns >= 0).any(axis=0)).tolist():
                targets = tuple(columns[:, byte].tolist())
                if targets not in known:
                    moved = [(s[0], target, s[2]) for s, target in zip(stacks, targets, strict=True) if target >= 0]
                    known[targets] = self.state(moved)
                row[byte] = known[targets]
            self.rows[state] = row
        return self.rows[state]

    def accepts(self, state: int) -> bool:
        """Return whether the text so far may be the whole text."""
        return () in self.sets[state]
