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
def test_task_1_alphabet_letters(byte, letter):
    case = f"the letter of byte {byte}"
    same_text(checked_alphabet(case)[byte], letter, case)


def test_task_1_alphabet_formula():
    alphabet = checked_alphabet("the letters of all 256 bytes")
    for byte, letter in alphabet_formula().items():
        same_text(alphabet[byte], letter, f"the letter of byte {byte}")


def test_task_1_alphabet_sweep():
    """Once more, after somebody has changed the first one: each call gives a dict of its own."""
    checked_alphabet("the letters of all 256 bytes").clear()
    alphabet = checked_alphabet("the letters of all 256 bytes, after the dict of an earlier call was emptied")
    for byte, letter in alphabet_formula().items():
        same_text(alphabet[byte], letter, f"the letter of byte {byte}, after the dict of an earlier call was emptied")


def test_task_1_alphabet_is_reversible_and_printable():
    """No two bytes share a letter, and none is a character that a file or a terminal could lose."""
    case = "the letters of all 256 bytes"
    alphabet = checked_alphabet(case)
    for letter, count in Counter(alphabet.values()).items():
        if count > 1:
            fail(Kind.VALUES, f"{count} bytes have the letter {letter!a}", case)
        if not letter.isprintable() or letter.isspace():
            fail(Kind.VALUES, f"the letter {letter!a} cannot be seen", case)
