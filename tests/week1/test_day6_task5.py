"""Week 1, day 6, task 5: streaming text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.tokenizing import (
    ANY_TEXT,
    END,
    PIECES,
    START,
    STOP,
    TABLES,
    awkward_ids,
    decode_formula,
    every_recorded,
    random_tables,
    stream_formula,
    streams_of_every_sort,
    words,
)

from tiny_llm import tokenizer
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import again, awkward_texts, same_pieces, same_text

BYTES = {piece[0]: i for i, piece in PIECES.items() if len(piece) == 1}  # the tokens of single bytes


def stream(ids, case, bpe=None, **skip):
    """Return the pieces of a new detokenizer after each token, and at the end."""
    bpe = bpe or tokenizer.ByteLevelBPE.from_file(TABLES)

    def pieces():
        detokenizer = tokenizer.StreamingDetokenizer(bpe, **skip)
        return [*(detokenizer.add(i) for i in ids), detokenizer.finish()]

    return again(pieces, case)


def check_stream(ids, expected, what, bpe=None, **skip):
    case = f"{what}: the pieces for {len(ids)} tokens, then finish(); ids {words(ids)}"
    same_pieces(stream(ids, case, bpe, **skip), expected, case)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([615, 281, 258, 314, 271], ["That", " is", " a", " blue", " dog", ""]),
        ([267, 486], ["", "\U0001f415", ""]),  # one character, two tokens
        ([267, 486, 271], ["", "\U0001f415", " dog", ""]),
        ([615, 267], ["That", "", "\ufffd"]),
        ([0, 0], ["!", "!", ""]),
        ([], [""]),
    ],
    ids=str,
)
def test_task_3_stream_by_hand(ids, expected):
    check_stream(ids, expected, "by hand")


@every_recorded
def test_task_3_stream_shows_characters_when_they_are_complete(row):
    ids = [i for i in row["ids"] if i < END]
    check_stream(ids, stream_formula(ids), row["name"])


def test_task_3_stream_special_tokens():
    """Special tokens are skipped by default; a character may start before one and end after it."""
    ids = [START, 615, 267, STOP, 486]
    check_stream(ids, ["", "That", "", "", "\U0001f415", ""], "special tokens skipped")
    check_stream(ids[:2], ["<|im_start|>", "That", ""], "special tokens shown", skip_special_tokens=False)


def test_task_3_stream_two_at_once():
    """Two detokenizers are independent."""
    case = "two alternating detokenizers, each given the two halves of a dog emoji"
    with noted(case):
        bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
        one, other = tokenizer.StreamingDetokenizer(bpe), tokenizer.StreamingDetokenizer(bpe)
        pieces = [one.add(267), other.add(267), one.add(486), other.add(486), one.finish(), other.finish()]
    same_pieces(pieces, ["", "", "\U0001f415", "\U0001f415", "", ""], case)


@property_test
@given(text=ANY_TEXT)
def test_task_3_stream_never_half_a_character(text):
    """Any text with one byte per token: the hardest split."""
    ids = [BYTES[byte] for byte in text.encode()]
    check_stream(ids, stream_formula(ids), f"the bytes of {words(text)}")


def check_joined(ids, what, bpe=None, tables=None, **skip):
    case = f"{what}: all pieces for {len(ids)} tokens joined; ids {words(ids)}"
    pieces = stream(ids, case, bpe, **skip)
    for piece in pieces:
        if not isinstance(piece, str):
            fail(Kind.TYPE, f"a piece is {type_words(piece)}, expected a str", case)
    # As large as the list of pieces: of two failing cases, the one that shows pieces is reported.
    drawn_ones = (tables.bytes_of, tables.specials.values()) if tables else ()
    expected = decode_formula(ids, skip.get("skip_special_tokens", True), *drawn_ones)
    same_text("".join(pieces), expected, case, size=len(pieces) + 1)


@property_test
@given(ids=st.lists(st.one_of(st.integers(0, 255), st.integers(256, STOP)), max_size=12), skip=st.booleans())
def test_task_3_stream_pieces_make_the_text(ids, skip):
    """Also for tokens that no text produces: the joined pieces equal decode of all tokens."""
    check_joined(ids, "any tokens", skip_special_tokens=skip)


@property_test
@given(data=st.binary(max_size=8), cut=st.integers(0, 24))
def test_task_3_stream_bytes_that_are_not_text(data, cut):
    """Random bytes, and every prefix of characters of two, three and four bytes."""
    data += "\u00e9\u72d7\U0001f415\u0301\ufffd".encode()[:cut]
    check_joined([BYTES[byte] for byte in data], f"the bytes {data.hex(' ') or 'none'}")


@pytest.mark.parametrize("broken", ["ff", "90 95", "c3", "e7 8b", "f0", "f0 9f", "f0 9f 90", "c3 ff"])
def test_task_3_stream_goes_on_after_invalid_bytes(broken):
    """After bytes that no later byte can complete, three whole characters arrive: the text is shown up to them."""
    ids = [BYTES[byte] for byte in bytes.fromhex(broken) + b"dog"]
    case = f"the bytes {broken}, then 'dog': the pieces joined, without finish()"
    shown = stream(ids, case)[:-1]
    same_text("".join(map(str, shown)), decode_formula(ids), case)


def test_task_3_stream_sweep():
    bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
    for ids in awkward_ids():
        check_joined(ids, "any tokens", bpe)
    for text in awkward_texts():
        ids = [BYTES[byte] for byte in text.encode()]
        if len(ids) < 300:
            check_stream(ids, stream_formula(ids), f"the bytes of {words(text)}", bpe)


def test_task_3_stream_random_sweep():
    """Every kind of token after every other, special tokens shown and skipped, ending after each."""
    for seed in range(2):
        tables = random_tables(seed)
        bpe = tokenizer.ByteLevelBPE(**tables.arguments)
        for skip in (False, True):
            for ids in streams_of_every_sort(seed):
                check_joined(ids, f"random tables, seed {seed}", bpe, tables, skip_special_tokens=skip)
