"""Week 1, day 6, task 4: decoding."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.tokenizing import (
    DOG,
    END,
    SPECIALS,
    START,
    STOP,
    TABLES,
    THAT,
    awkward_ids,
    by_hand,
    decode_formula,
    every_recorded,
    random_tables,
    streams_of_every_sort,
    words,
)

from tiny_llm import tokenizer
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import again, same_text


def check_decode(ids, expected, what, bpe=None, **skip):
    case = f"{what}: {len(ids)} tokens, ids {words(ids)}" + (", special tokens skipped" if skip else "")
    bpe = bpe or tokenizer.ByteLevelBPE.from_file(TABLES)
    same_text(again(lambda: bpe.decode(ids, **skip), case), expected, case)


@every_recorded
def test_task_2_decode_returns_the_text(row):
    """Decoding returns the encoded text, in its composed form."""
    check_decode(row["ids"], unicodedata.normalize("NFC", row["text"]), row["name"])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([615, 281, 258, 314, 271], "That is a blue dog"),
        ([281], " is"),
        ([267, 486], "\U0001f415"),  # one character, two tokens
        ([267], "\ufffd"),
        ([486], "\ufffd\ufffd"),
        ([267, 271], "\ufffd dog"),
        ([267, STOP, 486], "\ufffd<|im_end|>\ufffd\ufffd"),
        ([START, 271, STOP, END], "<|im_start|> dog<|im_end|><|endoftext|>"),
        ([], ""),
    ],
    ids=str,
)
def test_task_2_decode_by_hand(ids, expected):
    check_decode(ids, expected, "by hand")


def test_task_2_decode_skips_special_tokens():
    """Special tokens are skipped only on request, and the text around them is joined."""
    ids = [START, 615, STOP, 281, 267, END, 486]
    check_decode(ids, "That is\U0001f415", "by hand", skip_special_tokens=True)
    check_decode(ids, "<|im_start|>That<|im_end|> is\ufffd<|endoftext|>\ufffd\ufffd", "by hand")
    bpe = tokenizer.ByteLevelBPE(**by_hand(SPECIALS))  # the same byte alphabet, other special token ids
    for token, number in SPECIALS.items():
        case = f"token {number}, which is the special token {token!r}, skipped"
        with noted(case):
            text = bpe.decode([THAT, number, DOG], skip_special_tokens=True)
        same_text(text, "thatdog", case)


@pytest.mark.parametrize("skip", [False, True])
def test_task_2_decode_takes_an_iterator(skip):
    case = "an iterator over the ids of 'That is a blue dog<|im_end|>'" + ", special tokens skipped" * skip
    with noted(case):
        ids = iter([615, 281, 258, 314, 271, STOP])
        text = tokenizer.ByteLevelBPE.from_file(TABLES).decode(ids, **({"skip_special_tokens": True} if skip else {}))
    same_text(text, "That is a blue dog" + "<|im_end|>" * (not skip), case)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("unknown", [659, -1])
def test_task_2_decode_refuses_unknown_tokens(unknown, skip):
    skipped = ", special tokens skipped" * skip
    with raises_error(KeyError, f"ids [615, {unknown}], where token {unknown} does not exist{skipped}"):
        tokenizer.ByteLevelBPE.from_file(TABLES).decode(
            [615, unknown], **({"skip_special_tokens": True} if skip else {})
        )


@property_test
@given(ids=st.lists(st.one_of(st.integers(0, 255), st.integers(256, STOP)), max_size=12), skip=st.booleans())
def test_task_2_decode_any_tokens(ids, skip):
    """Also tokens that no text produces: invalid UTF-8 becomes U+FFFD, as in Python's decoder."""
    check_decode(ids, decode_formula(ids, skip), "any tokens", **({"skip_special_tokens": True} if skip else {}))


def test_task_2_decode_sweep():
    bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
    for ids in awkward_ids():
        check_decode(ids, decode_formula(ids), "any tokens", bpe)
        check_decode(ids, decode_formula(ids, True), "any tokens", bpe, skip_special_tokens=True)


def test_task_2_decode_random_sweep():
    """Shuffled ids, special tokens among them, and every kind of token after every other."""
    for seed in range(2):
        tables = random_tables(seed)
        bpe = tokenizer.ByteLevelBPE(**tables.arguments)
        for skip in (False, True):
            for ids in streams_of_every_sort(seed):
                expected = decode_formula(ids, skip, tables.bytes_of, tables.specials.values())
                named = {"skip_special_tokens": True} if skip else {}
                check_decode(ids, expected, f"random tables, seed {seed}", bpe, **named)
