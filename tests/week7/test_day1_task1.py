"""Task 7.1.1, regular expressions to automata over bytes, checked against a matcher of characters and Python's `re`."""

import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week7.grammars import check_form, check_language, near_texts, own, random_regex, run

from tiny_llm.constrained import automaton
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sweep


def parse_regex(pattern):
    return own(automaton.compile_rule, "pattern").parse_regex(pattern)


def expressions():
    """Return the module of the expressions that the program under test reads."""
    return own(automaton.compile_rule, "expression")


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("dog", ["dog", "do", "dogs", "", "cat"]),
        ("dog|dig", ["dog", "dig", "dg", "dogdig"]),
        ("(ab)*", ["", "ab", "abab", "aba", "b"]),
        ("a+b?", ["a", "aab", "b", "abb", ""]),
        ("a{2,3}", ["a", "aa", "aaa", "aaaa"]),
        ("a{2,}", ["a", "aa", "aaaaaa"]),
        ("a{0}", ["", "a"]),
        ("(a*)*", ["", "aaa", "b"]),
        ("(a?){3}", ["", "a", "aaa", "aaaa"]),
        ("(ab|a)(bc|c)", ["abc", "abbc", "ac", "ab"]),
        ("(a|ab)*b", ["b", "ab", "abb", "aabb", "ba"]),
        ("a*|b*", ["", "aa", "bb", "ab", "ba"]),
        ("(a*b)?a*", ["aab", "aaba", "aa", "abb"]),
        ("", ["", "a"]),
    ],
)
def test_task_1_dfa_by_hand(pattern, texts):
    check_language(automaton.compile_rule, parse_regex(pattern), texts, f"the expression {pattern!r}")


@pytest.mark.parametrize("outer", ["*", "+", "?", "{2,}", "{0,2}"])
@pytest.mark.parametrize("inner", ["*", "+", "?", "{0,2}"])
def test_task_1_dfa_repetitions_within_repetitions(inner, outer):
    """A sequence or choice with a repetition in it, itself repeated; Python's `re` is the oracle."""
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("ab", repeat=n)]
    for part in (f"a{inner}b", f"ba{inner}", f"a{inner}|b", f"a{inner}b{inner}"):
        pattern = f"(?:{part}){outer}"
        words = f"the expression {pattern!r}"
        with noted(words):
            dfa = automaton.compile_rule(parse_regex(pattern))
        for text in texts:
            expected = re.fullmatch(pattern, text) is not None
            if run(dfa, list(text.encode())) != expected:
                verdict = "is not accepted, but must be" if expected else "is accepted, but must not be"
                fail(Kind.VALUES, f"the text {text!r} {verdict}", words, size=len(pattern) + len(text))


@pytest.mark.parametrize(
    "pattern", ["[a-z]", "[^a]", "é", "[é-ü]", "[\u07f0-\u0810]", "[犬-猫]", "[\ufff0-\U00010010]", "."]
)
def test_task_1_dfa_characters(pattern):
    """Every class accepts the UTF-8 of its characters, of one to four bytes, and nothing else."""
    words = f"the class {pattern!a}"
    with noted(words):
        dfa = automaton.compile_rule(parse_regex(pattern))
    check_form(dfa, words)
    codes = {0, 9, 10, 97, 98, 0x7F, 0x80, 0xBF, 0xC0, 0xE8, 0xE9, 0xFC, 0xFD, 0x7EF, 0x7F0, 0x7FF, 0x800, 0x80F, 0x810}
    codes |= {
        0x811,
        0xFFF,
        0x1000,
        0x72AC,
        0x732B,
        0x732C,
        0xD7FF,
        0xE000,
        0xFFEF,
        0xFFFF,
        0x10000,
        0x1000F,
        0x10010,
        0x10011,
    }
    codes |= {0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF, *range(0x7C0, 0x840), *range(0x2FC0, 0x3040)}
    for code in sorted(codes):
        expected = re.fullmatch(pattern, chr(code)) is not None
        if run(dfa, list(chr(code).encode())) != expected:
            verdict = "is not accepted, but must be" if expected else "is accepted, but must not be"
            fail(Kind.VALUES, f"U+{code:04X}, {chr(code).encode().hex(' ')}, {verdict}", words, size=2)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",
        b"\xff",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xc3",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xe7\x8a",
        b"\xc3\xa9\xa9",
    ],
    ids=bytes.hex,
)
def test_task_1_dfa_bytes_that_are_no_characters(data):
    """A class of all characters: no surrogates, no longer forms, nothing past U+10FFFF."""
    words = "the class of all characters, U+0000 to U+10FFFF"
    with noted(words):
        dfa = automaton.compile_rule(expressions().Chars(((0, 0x10FFFF),)))
    fail_if_different(
        f"whether {data.hex(' ')}, which is no character, is accepted", False, run(dfa, list(data)), words
    )


def test_task_1_dfa_no_characters():
    """A class without characters derives nothing: not even the empty text."""
    e = expressions()
    check_language(
        automaton.compile_rule, e.Choice((e.Chars(()), e.literal("a"))), ["", "a", "b"], "no character, or a"
    )
    for first, last in ((0xD800, 0xDFFF), (0xD7FE, 0xD800), (0xDFFF, 0xE001)):
        words = f"the class U+{first:04X} to U+{last:04X}, of which the surrogates are left out"
        texts = ["", "a", *map(chr, (0xD7FD, 0xD7FE, 0xD7FF, 0xE000, 0xE001, 0xE002))]
        check_language(automaton.compile_rule, e.Chars(((first, last),)), texts, words)


CALLS = {
    "one": (lambda e: e.Call("x"), [["x"]], [[], ["y"], ["x", "x"]]),
    "list": (
        lambda e: e.Sequence((e.literal("["), e.separated(e.Call("x"), 0, None), e.literal("]"))),
        [[91, 93], [91, "x", 93], [91, "x", 44, "x", 93]],
        [[91, "x", "x", 93], [91, "x", 44, 93]],
    ),
    "choice": (lambda e: e.Choice((e.Call("x"), e.Call("y"), e.literal("a"))), [["x"], ["y"], [97]], [[], ["x", "y"]]),
    "the same rule twice": (
        lambda e: e.Choice((e.Sequence((e.Call("x"), e.literal("a"))), e.Sequence((e.Call("x"), e.literal("b"))))),
        [["x", 97], ["x", 98]],
        [["x"], ["x", "x", 97]],
    ),
    "repeated": (lambda e: e.Repeat(e.Call("x"), 2, 3), [["x", "x"], ["x", "x", "x"]], [["x"], ["x"] * 4]),
}


@pytest.mark.parametrize("name", CALLS)
def test_task_1_dfa_calls(name):
    """A call is one symbol beside the bytes."""
    build, right, wrong = CALLS[name]
    part = build(expressions())
    words = f"calls of rules, {name}: {part}"
    with noted(words):
        dfa = automaton.compile_rule(part)
    check_form(dfa, words)
    for expected, several in ((True, right), (False, wrong)):
        for symbols in several:
            fail_if_different(f"whether {symbols} is accepted", expected, run(dfa, symbols), words, len(symbols))


def test_task_1_dfa_refuses_too_many_states():
    """The position of an a 13 characters before the end needs 2**14 states: they fit in memory without a limit."""
    with raises_value_error("(a|b)*a(a|b){13}", "10000"):
        automaton.compile_rule(parse_regex("(?:a|b)*a(?:a|b){13}"))


@pytest.mark.parametrize("symbol", ["a byte", "a call"])
def test_task_1_dfa_refuses_one_state_too_many(symbol):
    """10000 times a byte or a call needs 10001 states in any automaton."""
    e = expressions()
    part = e.literal("a") if symbol == "a byte" else e.Call("x")
    with raises_value_error(f"10000 times {symbol}, which needs 10001 states", "10000"):
        automaton.compile_rule(e.Repeat(part, 10_000, 10_000))


def test_task_1_dfa_long():
    """A repetition of 300 characters, each of one to four bytes."""
    words = "300 to 302 times any character"
    check_language(automaton.compile_rule, parse_regex(".{300,302}"), ["é" * n for n in (299, 300, 302, 303)], words)
    words = "9999 times an a, which needs 10000 states, as many as are allowed"
    check_language(automaton.compile_rule, parse_regex("a{9999}"), ["a" * 9998, "a" * 9999], words)


def test_task_1_dfa_sweep():
    """Random expressions, and texts near them; Python's `re` is the oracle."""
    for n in sweep(L=130, D=4):
        rng = random.Random(n.seed * 1000 + n.L + n.D)
        pattern = random_regex(rng, min(n.D, 4))
        words = f"the expression {pattern!a:.90}, seed {n.seed}"
        with noted(words):
            dfa = automaton.compile_rule(parse_regex(pattern))
        for text in [*near_texts(rng, 6, n.L), *near_texts(rng, 12)]:
            expected = re.fullmatch(pattern, text) is not None
            if run(dfa, list(text.encode())) != expected:
                verdict = "is not accepted, but must be" if expected else "is accepted, but must not be"
                fail(Kind.VALUES, f"the text {text!a:.60} {verdict}", words, size=len(pattern) + len(text), swept=True)


@property_test
@given(seed=st.integers(0, 999))
def test_task_1_dfa_random(seed):
    rng = random.Random(seed)
    pattern = random_regex(rng, 2)
    check_language(automaton.compile_rule, parse_regex(pattern), near_texts(rng, 8), f"the expression {pattern!a}")


def test_task_1_dfa_leaves_its_input():
    part = expressions().separated(expressions().Call("x"), 1, 3)
    before = repr(part)
    with noted("1 to 3 calls with commas"):
        first, second = automaton.compile_rule(part), automaton.compile_rule(part)
    fail_if_different("the expression was changed", before, repr(part), "1 to 3 calls with commas")
    for symbols in (["x"], ["x", 44, "x"], ["x", 44]):
        fail_if_different(f"a second call differs on {symbols}", run(first, symbols), run(second, symbols), "twice")
