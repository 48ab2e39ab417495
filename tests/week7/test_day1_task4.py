"""Task 7.1.4, a pushdown automaton, checked against a matcher of characters and the masks of llguidance."""

import functools
import importlib
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.grammars import derives
from tests.week7.pushing import (
    CALL_FIRST,
    END,
    GRAMMARS,
    NUMBER,
    SIZE,
    accepts,
    check_bytes,
    expression,
    schemas,
    steps,
    token_bytes,
)
from tests.week7.random_schemas import compact, draw_schema, draw_value, near_values, ordered, valid

from tiny_llm.constrained import pushdown
from tiny_llm.constrained.automaton import compile_rule
from tiny_llm.constrained.completion import compile_rules
from tiny_llm.constrained.grammar import GrammarCompiler
from tiny_llm.constrained.schema import schema_rules
from tiny_llm.constrained.trie import TokenTrie, unpack
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def package(module):
    return importlib.import_module(f"tiny_llm.constrained.{module}")


def of_rules(rules):
    """Return the automaton of rules written as regular expressions, and the expressions."""
    parsed = {name: expression(text, package) for name, text in rules.items()}
    return pushdown.Pushdown({name: compile_rule(part) for name, part in parsed.items()}, "#"), parsed


@functools.cache
def vocabulary():
    return TokenTrie(token_bytes(), SIZE)


@pytest.mark.parametrize("name", GRAMMARS)
def test_task_4_pushdown_by_hand(name):
    rules, texts = GRAMMARS[name]
    case = f"{name}: {rules}"
    with noted(case):
        made, parsed = of_rules(rules)
    for text in texts:
        with noted(f"{case}, the text {text!a}"):
            actual = accepts(made, text)
        expected = derives(parsed["#"], text, parsed)
        fail_if_different(f"whether {text!a} is accepted", expected, actual, case, len(text))


@pytest.mark.parametrize("name", GRAMMARS)
def test_task_4_pushdown_all_short_texts(name):
    """All texts of up to five of the grammar's characters."""
    rules, texts = GRAMMARS[name]
    letters = sorted({letter for text in texts for letter in text})[:4]
    case = f"{name}: {rules}"
    with noted(case):
        made, parsed = of_rules(rules)
    for length in range(5):
        for letters_of in itertools.product(letters, repeat=length):
            text = "".join(letters_of)
            with noted(f"{case}, the text {text!a}"):
                actual = accepts(made, text)
            fail_if_different(f"whether {text!a} is accepted", derives(parsed["#"], text, parsed), actual, case, length)


def test_task_4_pushdown_continues_or_returns():
    """After [1 a digit continues the number; a comma and a bracket return to the list."""
    case = "a list of numbers, after [1"
    with noted(case):
        made, _ = of_rules({"#": r"\[(?:<n>(?:,<n>)*)?\]", "n": NUMBER})
        state = made.start
        for byte in b"[1":
            state = int(made.row(state)[byte])
        row = made.row(state)
    fail_if_different("the bytes that may follow", list(b",0123456789]"), np.flatnonzero(row >= 0).tolist(), case)
    fail_if_different("whether the text may end", False, made.accepts(state), case)


@pytest.mark.parametrize("text", ["[[[[[", '[{"a":[', '"x', '[1,"a",'], ids=ascii)
def test_task_4_pushdown_few_states(text):
    """The same sets of stacks are one state: reading the same items again and again finds no new ones."""
    case = f"any JSON value, after {text} and some times 1,"
    with noted(case):
        made = pushdown.Pushdown(compile_rules(schema_rules({})), "#")
        state, counts = made.start, []
        for byte in text.encode():
            state = int(made.row(state)[byte])
        for _ in range(4):
            for byte in b"1," if text.endswith(("[", ",")) else b"1a":
                state = int(made.row(state)[byte])
            counts.append(len(made.sets))
    if counts[-1] != counts[1]:
        fail(Kind.VALUES, f"the number of states grows with each repetition: {counts}", case)


def test_task_4_pushdown_stacks_that_read_nothing():
    """A caller whose state reads no byte is dropped: with or without it, the set is the same state."""
    case = f"the rules {CALL_FIRST}, at the start"
    with noted(case):
        made, parsed = of_rules(CALL_FIRST)
        ((name, after),) = compile_rule(parsed["#"]).calls[0]
        called = made.state([(name, 0, ("#", after, None))])
    fail_if_different("the state of the called rule alone", made.start, called, case)


def test_task_4_pushdown_stacks_in_any_order():
    """The stacks of a state, in the reverse order or twice, are that state."""
    case = "any JSON value, the states after [1"
    with noted(case):
        made = pushdown.Pushdown(compile_rules(schema_rules({})), "#")
        after = made.start
        for byte in b"[1":
            after = int(made.row(after)[byte])
        sets = [list(stacks) for stacks in made.sets]
        backwards = [made.state(reversed(stacks)) for stacks in sets]
        twice = [made.state(stacks * 2) for stacks in sets]
    for how, again in (("in the reverse order", backwards), ("twice", twice)):
        if again != list(range(len(sets))):
            fail(Kind.VALUES, f"a state's stacks, {how}, are another state", case)


def test_task_4_pushdown_a_row_once():
    """A second call returns the same row, and numbers no new state."""
    case = "any JSON value, the first state"
    with noted(case):
        made = pushdown.Pushdown(compile_rules(schema_rules({})), "#")
        first = made.row(made.start).copy()
        count = len(made.sets)
        second = made.row(made.start)
    fail_if_different("the second row", first.tolist(), second.tolist(), case)
    fail_if_different("the number of states after a second call", count, len(made.sets), case)


@pytest.mark.parametrize("number", range(len(schemas())))
def test_task_4_pushdown_bytes_of_llguidance(number):
    """A recorded text of a schema: at each step the bytes that llguidance allows."""
    with noted(f"schema {json.dumps(schemas()[number])[:200]}"):
        made = pushdown.Pushdown(compile_rules(schema_rules(schemas()[number])), "#")
    check_bytes(made, number)


@pytest.mark.parametrize("first", range(0, len(schemas()), 6))
def test_task_4_pushdown_tokens_of_llguidance(first):
    """A recorded text of six schemas: at each step the same tokens of the course's model."""
    for number in range(first, min(first + 6, len(schemas()))):
        schema = schemas()[number]
        case = f"schema {json.dumps(schema)[:200]}"
        with noted(case):
            grammar = GrammarCompiler(vocabulary(), [END]).compile(schema)
        state, text = grammar.start, b""
        for token, allowed in steps("tokens", number):
            with noted(f"{case}, after {text!a:.60}"):
                actual = np.flatnonzero(unpack(grammar.mask(state), SIZE)).tolist()
            if actual != allowed:
                more, less = (sorted({*a} - {*b})[:4] for a, b in ((actual, allowed), (allowed, actual)))
                shown = [
                    ", ".join(ascii(token_bytes().get(t, b"the end")) for t in some) or "none" for some in (more, less)
                ]
                lines = (f"only yours        {shown[0]}", f"only llguidance's {shown[1]}")
                fail(Kind.VALUES, "the allowed tokens differ from llguidance's", f"{case}, after {text!a:.60}", *lines)
            if token < 0:
                break
            state, text = grammar.advance(state, token), text + token_bytes()[token]


def check_schema(schema, rng, swept=False):
    case = f"schema {json.dumps(schema, ensure_ascii=False)[:300]}"
    with noted(case):
        made = pushdown.Pushdown(compile_rules(schema_rules(schema)), "#")
    value = draw_value(rng, schema, schema)
    for one in [value, *near_values(rng, value)]:
        expected = valid(one, schema, schema) and ordered(one, schema, schema)
        with noted(f"{case}, the text {compact(one):.80}"):
            actual = accepts(made, compact(one))
        if actual != expected:
            verdict = "is not accepted, but must be" if expected else "is accepted, but must not be"
            fail(Kind.VALUES, f"{compact(one):.80} {verdict}", case, size=len(case), swept=swept)


def test_task_4_pushdown_sweep():
    """Random schemas of all kinds and depths, with values that they allow, and near ones."""
    for n in sizes(D=4, N=7):
        rng = random.Random(n.seed * 37 + n.D)
        check_schema(draw_schema(rng, min(n.D, 3)), rng, swept=True)


@property_test
@given(seed=st.integers(0, 9999))
def test_task_4_pushdown_random(seed):
    rng = random.Random(seed)
    check_schema(draw_schema(rng, 2), rng)
