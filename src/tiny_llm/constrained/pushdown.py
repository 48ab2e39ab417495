"""Rules that call each other, as one automaton: its states are sets of stacks."""

from collections.abc import Iterable, Mapping

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
        raise NotImplementedError("7.1.4 A pushdown automaton")

    def state(self, stacks: Iterable[Stack]) -> int:
        """Return the number of the state in which the text so far has led to one of these stacks.

        Until no stack is new: a stack whose top rule may end is also the stack below it, or (), the empty stack, if
        nothing is below. If the top state may call rules, each of them may begin: it becomes the top, in state 0, and
        below it the caller continues in the state after the call. Then drop the stacks whose top state reads no byte:
        of two different sets that read the same, only one is numbered.

        Returns:
            The index in `sets`: the old one, if the same set was found before.
        """
        raise NotImplementedError("7.1.4 A pushdown automaton")

    def row(self, state: int) -> Ints:
        """Return the states after each byte, -1 where no stack reads it: 256, int32. It is computed once per state."""
        raise NotImplementedError("7.1.4 A pushdown automaton")

    def accepts(self, state: int) -> bool:
        """Return whether the text so far may be the whole text."""
        raise NotImplementedError("7.1.4 A pushdown automaton")
