"""Oracles of day 1: what an expression derives, character by character, and how to run an automaton over bytes."""

import importlib
import random
from typing import TYPE_CHECKING, Any

import numpy as np

from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail

if TYPE_CHECKING:  # what `own` imports by name, so that a proof's key covers it
    from tiny_llm.constrained import expression, pattern, trie  # noqa: F401


def own(program: Any, module: str) -> Any:
    """Return a module of the package that a program is from, the learner's or the solution's."""
    package = program.__module__.partition(".")[0]
    name = package if package.startswith("tiny_llm") else "tiny_llm_solution"
    return importlib.import_module(f"{name}.constrained.{module}")


def ends(part: Any, text: str, start: int, rules: dict[str, Any], memo: dict[Any, set[int]]) -> set[int]:
    """Return where a text of the expression that begins at `start` may end; rules must not call themselves at once."""
    key = (id(part), start)
    if key in memo:
        return memo[key]
    kind = type(part).__name__
    found: set[int]
    if kind == "Chars":
        right = start < len(text) and any(a <= ord(text[start]) <= b for a, b in part.ranges)
        found = {start + 1} if right else set()
    elif kind == "Call":
        found = ends(rules[part.rule], text, start, rules, memo)
    elif kind == "Sequence":
        found = {start}
        for each in part.parts:
            found = set().union(*(ends(each, text, at, rules, memo) for at in found))
    elif kind == "Choice":
        found = set().union(*(ends(each, text, start, rules, memo) for each in part.options))
    else:
        found, level, count = set(), {start}, 0
        seen = set[int]()
        while level and (part.most is None or count <= part.most):
            if count >= part.least:
                found |= level
                level -= seen if part.most is None else set()
                seen |= level
            level = set().union(*(ends(part.part, text, at, rules, memo) for at in level))
            count += 1
    memo[key] = found
    return found


def derives(part: Any, text: str, rules: dict[str, Any] | None = None) -> bool:
    """Return whether an expression derives a text."""
    return len(text) in ends(part, text, 0, rules or {}, {})


def run(dfa: Any, symbols: list[Any]) -> bool:
    """Return whether an automaton accepts a sequence of bytes, as ints, and of rules, by name."""
    state = 0
    for symbol in symbols:
        named = isinstance(symbol, str)
        state = dict(dfa.calls[state]).get(symbol, -1) if named else int(dfa.table[state][symbol])
        if state < 0:
            return False
    return bool(dfa.accepting[state])


def check_form(dfa: Any, case: str) -> None:
    """Check an automaton's types: table, calls and accepting."""
    count = len(dfa.accepting)
    if not isinstance(dfa.table, np.ndarray) or dfa.table.dtype != np.int32:
        got = dfa.table.dtype if isinstance(dfa.table, np.ndarray) else type_words(dfa.table)
        fail(Kind.DTYPE, f"`table` is {got}, expected int32", case)
    if dfa.table.shape != (count, 256) or len(dfa.calls) != count:
        what = f"`table` is {dfa.table.shape}, and there are {len(dfa.calls)} calls and {count} accepting"
        fail(Kind.SHAPE, what, case)
    if dfa.table.min() < -1 or dfa.table.max() >= count:
        fail(Kind.VALUES, f"`table` has a state that is not from -1 to {count - 1}", case)
    for each in dfa.calls:
        if len(dict(each)) != len(each):
            fail(Kind.VALUES, "a state has two calls of one rule: it is not deterministic", case)


def check_language(compile_rule: Any, part: Any, texts: list[str], words: str) -> None:
    """Check that the automaton of an expression without calls accepts the texts that the expression derives."""
    with noted(words):
        dfa = compile_rule(part)
    check_form(dfa, words)
    for text in texts:
        expected, actual = derives(part, text), run(dfa, list(text.encode()))
        if actual != expected:
            verdict = "is not accepted, but must be" if expected else "is accepted, but must not be"
            fail(Kind.VALUES, f"the text {text!a:.60} {verdict}", words, size=len(words) + len(text))


def random_regex(rng: random.Random, depth: int = 3) -> str:
    """Return a regular expression that Python's `re` and `parse_regex` read alike."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["a", "b", "c", "é", "犬", "[ab]", "[^a]", "[a-c]", "[é-犬]"])
    a, b = (random_regex(rng, depth - 1) for _ in "ab")
    return rng.choice(
        [a + b, a + b, f"(?:{a}|{b})", f"(?:{a})*", f"(?:{a})?", f"(?:{a})+", f"(?:{a}){{1,3}}", f"(?:{a}){{2}}"]
    )


def near_texts(rng: random.Random, count: int, length: int = 6) -> list[str]:
    """Return random texts over the letters of `random_regex`."""
    return ["".join(rng.choice("aabbcé犬z") for _ in range(rng.randint(0, length))) for _ in range(count)]
