"""Week 3, day 1, task 4: stop strings.

What may be shown is found by an oracle that scans the text character by character.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.stories import (
    Spelling,
    shown_until,
)

from tiny_llm import tokenizer
from tiny_llm.serving import stopping
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import same_pieces, same_text


def check_stops(parts, stops, tail="", case=""):
    case = case or f"pieces {parts}, stop strings {list(stops)}" + f", and at the end {tail!a}" * bool(tail)
    with noted(case):
        made = stopping.StopStrings(Spelling(parts, tail), stops)
        shown, texts, found = [], [made.text], [made.found]
        for number in range(len(parts) + 1):
            shown.append(made.add(number) if number < len(parts) else made.finish())
            texts.append(made.text)
            found.append(made.found)
    whole, so_far, string, expected, wholes, strings = "", "", None, [], [""], [None]
    for number, piece in enumerate([*parts, tail]):
        before = so_far
        if string is None:
            whole += piece
            so_far, string = shown_until(whole, stops, number == len(parts))
        expected.append(so_far[len(before) :])
        wholes.append(so_far)
        strings.append(string)
    same_pieces(shown, expected, f"what each call shows; {case}")
    same_pieces(texts, wholes, f"`text` before the first call and after each; {case}")
    for calls, (one, other) in enumerate(zip(strings, found, strict=True)):
        if one != other or type(one) is not type(other):
            fail(Kind.VALUES, f"wrong `found` after {calls} calls", case, f"expected  {one!a}", f"got       {other!a}")


@pytest.mark.parametrize(
    ("parts", "stops"),
    [
        (["That", " is", " a", " blue", " dog"], ["cat"]),
        (["That", " is", " a", " blue", " dog"], []),
        (["That", " is", " a", " blue", " dog"], [" a"]),
        (["That is", " a blue dog and a cat"], ["blue"]),
        (["That is", " a b", "lu", "e dog"], ["a blue"]),
        (["Hi", "\n", "Us", "ual", "\nUs", "er", ":", " no"], ["\nUser:"]),
        (list("aaaab"), ["aab"]),
        (list("ababac"), ["abac"]),
        (["abc"], ["abc"]),
        (["ab", "c", "abc"], ["c"]),
    ],
    ids=str,
)
def test_task_4_stop_by_hand(parts, stops):
    check_stops(parts, stops)


@pytest.mark.parametrize("kind", [tuple, set, dict.fromkeys], ids=["tuple", "set", "dict"])
def test_task_4_stop_any_collection(kind):
    """The stop strings may be in a collection without indices, or one that cannot be changed."""
    parts, stops = ["xab", "cd!"], ["abcd", "bc", "d"]
    check_stops(parts, kind(stops), case=f"pieces {parts}, stop strings {stops} in a {type(kind(stops)).__name__}")


@pytest.mark.parametrize("parts", [["xabcd!"], ["xab", "cd!"], list("xabcd!"), ["xabc", "d!"]], ids=str)
@pytest.mark.parametrize(
    "stops", [["abcd", "bc"], ["bc", "abcd"], ["abc", "ab"], ["c", "abc", "bc"], ["d", "a"]], ids=str
)
def test_task_4_stop_several(stops, parts):
    """The first complete stop string ends the text, however it is split; of those that end together, the longest."""
    check_stops(parts, stops)


@pytest.mark.parametrize(
    ("parts", "stops", "tail"),
    [
        (["one t"], ["three"], ""),
        (["one th", "re"], ["three"], "e"),
        (["one"], ["three"], " th"),
        ([], ["three"], "a three"),
        ([], ["a"], ""),
        (["one three"], ["three"], "s"),
        (["on"], ["on the"], " "),
    ],
    ids=str,
)
def test_task_4_stop_at_the_end(parts, stops, tail):
    """Held-back characters come out at the end, with the detokenizer's tail, unless that completes a stop string."""
    check_stops(parts, stops, tail)


@pytest.mark.parametrize(
    ("parts", "text", "first"),
    [
        (["", "That", " is", " a b", "lue", " dog"], "That is a ", 4),
        (["I ", "see blue", " now"], "I see ", 1),
        (["blue", "s"], "", 0),
    ],
    ids=str,
)
def test_task_4_stop_ends(parts, text, first):
    """`ends` takes the token and returns whether the text is over, even if the token shows characters before that."""
    case = f"pieces {parts}, stop string blue, ends"
    with noted(case):
        made = stopping.StopStrings(Spelling(parts), ["blue"])
        said = [made.ends(token) for token in range(len(parts))]
        shown, rest = made.text, made.finish()
    if said != (expected := [number >= first for number in range(len(parts))]):
        fail(Kind.VALUES, "`ends` is wrong", case, f"expected  {expected}", f"got       {said}")
    same_text(shown, text, case)
    same_text(rest, "", f"finish; {case}")


def test_task_4_stop_two_requests():
    case = "two texts in turn, stop string blue"
    with noted(case):
        one = stopping.StopStrings(Spelling(["a b", "lu"]), ["blue"])
        other = stopping.StopStrings(Spelling(["red", "e "]), ["blue"])
        shown = [made.add(token) for token in (0, 1) for made in (one, other)]
        shown += [one.finish(), other.finish()]
    same_pieces(shown, ["a ", "red", "", "e ", "blu", ""], case)


@pytest.mark.parametrize("stops", [[""], ["a", ""]], ids=str)
def test_task_4_stop_refuses_an_empty_string(stops):
    with raises_value_error(f"stop strings {stops}"):
        stopping.StopStrings(Spelling([]), stops)


@property_test
@given(
    text=st.text("ab\n", max_size=14),
    stops=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 14), max_size=5),
    tail=st.text("ab", max_size=2),
)
def test_task_4_stop_any_text(text, stops, cuts, tail):
    """Few distinct characters, so that stop strings start everywhere; split into tokens arbitrarily."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    check_stops([text[a:b] for a, b in itertools.pairwise(places)], stops, tail)


def test_task_4_stop_sweep():
    """Every text of up to six characters out of two, character by character and in two pieces."""
    for stops in (["ab"], ["aab", "ba"], ["aba", "b"], ["abab", "bb", "a"]):
        for length in range(7):
            for letters in itertools.product("ab", repeat=length):
                check_stops(list(letters), stops)
        for letters in itertools.product("ab", repeat=5):
            text = "".join(letters)
            for cut in range(6):
                check_stops([text[:cut], text[cut:]], stops)
    long = "ab" * 600 + "aab" + "b"
    check_stops([long[i : i + 7] for i in range(0, 1200, 7)], ["aab" * 2, "b" * 40])


def test_task_4_stop_with_your_detokenizer():
    """A dog emoji comes in two tokens, and is a stop string."""
    case = "tokens of `a`, and of a dog emoji, one byte each; stop string: the emoji"
    with noted(case):
        bpe = tokenizer.ByteLevelBPE({letter: byte for byte, letter in tokenizer.byte_alphabet().items()}, [])
        made = stopping.StopStrings(tokenizer.StreamingDetokenizer(bpe), ["\U0001f415"])
        shown = [made.add(byte) for byte in "a\U0001f415b".encode()]
        shown.append(made.finish())
    same_pieces(shown, ["a", "", "", "", "", "", ""], case)
    with noted(case):
        made = stopping.StopStrings(tokenizer.StreamingDetokenizer(bpe), ["b\ufffd"])
        shown = [made.add(byte) for byte in b"ab\xf0"]
        shown.append(made.finish())
    same_pieces(shown, ["a", "", "", ""], "tokens of `ab`, and one byte of an emoji; stop string b and U+FFFD")
