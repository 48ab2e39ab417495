"""The automata of a grammar's rules, less what can never be completed."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from .automaton import DFA, MOST_STATES, compile_rule
from .expression import Expression, size
from .schema import ROOT_RULE
from .values import COMMON


def compile_rules(expressions: Mapping[str, Expression]) -> dict[str, DFA]:
    """Return the automata of a grammar's rules, without the states from which no text can be completed.

    Otherwise a request could enter a state in which no token is allowed, and the text is no JSON yet.

    Raises:
        ValueError: the rule of the whole text derives no text, as that of an object that must contain itself; a rule
            calls itself at its beginning; or the automata have more than MOST_STATES states.
    """
    rules, total = dict[str, DFA](), 0
    for name, expression in expressions.items():
        if size(expression) > 10 * MOST_STATES:
            raise ValueError(f"{name}: the schema is too large: lower its repetitions")
        rules[name] = _common(name) if name in COMMON else compile_rule(expression)
        total += len(rules[name].accepting)
        if total > MOST_STATES:
            raise ValueError(f"{name}: the schema is too large, its automata have more than {MOST_STATES} states")
    _refuse_left_recursion(rules)
    alive = {name: [False] * len(dfa.accepting) for name, dfa in rules.items()}
    before = {name: _before(dfa) for name, dfa in rules.items()}
    changed = True
    while changed:  # a call can be completed once its rule can
        changed = False
        for name, dfa in rules.items():
            if not all(alive[name]):
                changed |= _revive(dfa, alive[name], before[name], {each for each in alive if alive[each][0]})
    if not alive[ROOT_RULE][0]:
        raise ValueError(f"{ROOT_RULE}: no finite text satisfies the schema")
    finite = {name for name, states in alive.items() if states[0]}
    return {name: dfa if all(alive[name]) else _trimmed(dfa, alive[name], finite) for name, dfa in rules.items()}


@cache
def _common(name: str) -> DFA:
    return compile_rule(COMMON[name])


def _before(dfa: DFA) -> dict[int, list[tuple[int, str]]]:
    """Return for each state those before it, with the rule called in between, or "" for a byte."""
    found = defaultdict[int, list[tuple[int, str]]](list)
    for state, row in enumerate(dfa.table):
        for target in np.unique(row[row >= 0]).tolist():
            found[target].append((state, ""))
        for rule, target in dfa.calls[state]:
            found[target].append((state, rule))
    return found


def _revive(dfa: DFA, alive: list[bool], before: dict[int, list[tuple[int, str]]], finite: set[str]) -> bool:
    """Mark the states from which a text can be completed by calls of finite rules; return whether any is new."""
    count, todo = sum(alive), [state for state, ends in enumerate(dfa.accepting) if ends or alive[state]]
    for state in todo:  # grows while it is read
        alive[state] = True
        todo += [one for one, rule in before[state] if not alive[one] and (not rule or rule in finite)]
    return sum(alive) > count


def _trimmed(dfa: DFA, alive: list[bool], finite: set[str]) -> DFA:
    lives = np.array(alive)
    table = np.where((dfa.table >= 0) & lives[dfa.table], dfa.table, -1).astype(np.int32)
    calls = tuple(tuple((r, after) for r, after in each if r in finite and alive[after]) for each in dfa.calls)
    return replace(dfa, table=table, calls=calls)


def _refuse_left_recursion(rules: Mapping[str, DFA]) -> None:
    """Raise ValueError if a rule calls itself before it has read a byte."""
    done, path = set[str](), list[str]()

    def visit(name: str) -> None:
        if name in path:
            raise ValueError(f"{name}: $ref leads back to itself before anything is read")
        if name not in done:
            path.append(name)
            for callee, _ in rules[name].calls[0]:
                visit(callee)
            done.add(path.pop())

    visit(ROOT_RULE)
    for name in rules:
        visit(name)
