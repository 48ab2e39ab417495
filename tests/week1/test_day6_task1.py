"""Week 1, day 6, task 1: the byte alphabet."""

from collections import Counter

import pytest
from tests.week1.tokenizing import alphabet_formula

from tiny_llm import tokenizer
from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.texts import same_text


def checked_alphabet(case):
    alphabet = tokenizer.byte_alphabet()
    if not isinstance(alphabet, dict):
        fail(Kind.TYPE, f"got {type_words(alphabet)}, expected a dict", case)
    for byte in range(256):
        if byte not in alphabet:
            fail(Kind.VALUES, f"byte {byte} is not in the alphabet", case)
    if len(alphabet) != 256:
        fail(Kind.VALUES, f"the alphabet has {len(alphabet)} entries, expected 256", case)
    return alphabet


@pytest.mark.parametrize(
    ("byte", "letter"),
    [
        (ord("d"), "d"), (ord("!"), "!"), (ord("~"), "~"), (ord(" "), "\u0120"), (ord("\n"), "\u010a"),
        (ord("\t"), "\u0109"), (0, "\u0100"), (127, "\u0121"), (160, "\u0142"), (161, "\u00a1"), (173, "\u0143"),
        (255, "\u00ff"),
    ],
)  # fmt: skip
def test_task_1_alphabet_characters(byte, letter):
    case = f"the character of byte {byte}"
    same_text(checked_alphabet(case)[byte], letter, case)


def test_task_1_alphabet_formula():
    alphabet = checked_alphabet("the characters of all 256 bytes")
    for byte, letter in alphabet_formula().items():
        same_text(alphabet[byte], letter, f"the character of byte {byte}")


def test_task_1_alphabet_sweep():
    """Each call returns a new dict, even after the caller has changed an earlier one."""
    first = checked_alphabet("the characters of all 256 bytes")
    kept = dict(first)
    first.clear()
    case = "after the dict of an earlier call was emptied"
    try:
        alphabet = checked_alphabet(f"the characters of all 256 bytes, {case}")
        for byte, letter in alphabet_formula().items():
            same_text(alphabet[byte], letter, f"the character of byte {byte}, {case}")
    finally:
        first.update(kept)  # if it is the dict of all calls, the other checks need it


def test_task_1_alphabet_is_reversible_and_printable():
    """No two bytes share a character, and every character is visible."""
    case = "the characters of all 256 bytes"
    alphabet = checked_alphabet(case)
    for letter, count in Counter(alphabet.values()).items():
        if count > 1:
            fail(Kind.VALUES, f"{count} bytes have the character {letter!a}", case)
        if not letter.isprintable() or letter.isspace():
            fail(Kind.VALUES, f"the character {letter!a} is invisible", case)
