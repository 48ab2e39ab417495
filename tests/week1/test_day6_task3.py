"""Week 1, day 6, task 3: encoding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.tokenizing import (
    ANY_TEXT,
    CAP_THAT,
    DOG,
    E_ACUTE,
    MORE_SPECIALS,
    SPACE_DOG,
    SPACE_IS,
    SPECIALS,
    STOP,
    TABLES,
    THAT,
    by_hand,
    encode_formula,
    every_recorded,
    random_tables,
    tables,
    words,
)

from tiny_llm import tokenizer
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import again, awkward_texts, same_ids


def check_encode(bpe, text, expected, where):
    case = f"the text {words(text)}, {where}"
    same_ids(again(lambda: bpe.encode(text), case), expected, case)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("That is", [CAP_THAT, SPACE_IS]),
        ("s s", [ord("s"), 32, ord("s")]),  # s+space is a pair, but no token spans two words
        ("dog", [DOG]),
        (" dog", [SPACE_DOG]),
        ("  dog", [32, SPACE_DOG]),
        ("dog ", [DOG, 32]),
        ("thatdog", [THAT, DOG]),
        ("\u00e9", [E_ACUTE]),  # two bytes, one token
        ("\u00ea", [0xC3, 0xAA]),
        ("\U0001f415", [0xF0, 0x9F, 0x90, 0x95]),
        ("", []),
    ],
    ids=ascii,
)
def test_task_2_encode_by_hand(text, expected):
    check_encode(tokenizer.ByteLevelBPE(**by_hand()), text, expected, "small tables made by hand")


@every_recorded
def test_task_2_encode_tokenizers(row):
    """The same ids as Hugging Face's `tokenizers`."""
    check_encode(tokenizer.ByteLevelBPE.from_file(TABLES), row["text"], row["ids"], f"tokenizer.json ({row['name']})")


@pytest.mark.parametrize("normalization", ["NFC", None, "NFD", "NFKC"])
def test_task_2_encode_normalizes(normalization):
    """The same word with one character for e-acute and with two, and a ligature."""
    composed, apart, ligature = [E_ACUTE], [ord("e"), 0xCC, 0x81], [0xEF, 0xAC, 0x81]
    is_composed, is_apart = {"NFC": (composed,) * 2, "NFKC": (composed,) * 2, "NFD": (apart,) * 2}.get(
        normalization or "", (composed, apart)
    )
    bpe, where = tokenizer.ByteLevelBPE(**by_hand(normalization=normalization)), f"normalization {normalization}"
    check_encode(bpe, "\u00e9", is_composed, where)
    check_encode(bpe, "e\u0301", is_apart, where)
    check_encode(bpe, "\ufb01", [ord("f"), ord("i")] if normalization == "NFKC" else ligature, where)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|end|>", [300]),
        ("<|end", [301, ord("n"), ord("d")]),
        ("<|end|><|end|><|end|>", [302, 300]),
        ("that<|end|> is", [THAT, 300, SPACE_IS]),
        (" dog", [32, 303]),  # the special token comes before the words
        ("<|END|>", [*b"<|END|>"]),
        ("<|e\u0301", [301, 0xCC, 0x81]),
        ("e\u0301\u00e9", [304, E_ACUTE]),  # special tokens are matched before the text is normalized
        ("<|end|>that", [300, THAT]),
        ("<|end|><|e<|end|>", [300, 301, 300]),
    ],
    ids=ascii,
)
def test_task_2_encode_special_tokens(text, expected):
    check_encode(
        tokenizer.ByteLevelBPE(**by_hand(SPECIALS, normalization="NFC")),
        text,
        expected,
        f"special tokens {words(', '.join(SPECIALS))}",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|dog|>", [300, *b"g|>"]),
        ("dog|>that", [301, THAT]),
        ("<|dog|>that", [300, *b"g|", 302]),
    ],
)
def test_task_2_encode_special_tokens_that_overlap(text, expected):
    """The one that starts first wins, even over a longer one."""
    specials = {"<|do": 300, "dog|>": 301, ">that": 302}
    check_encode(tokenizer.ByteLevelBPE(**by_hand(specials)), text, expected, f"special tokens {', '.join(specials)}")


def test_task_2_encode_uses_the_pattern():
    """A pattern with one character per word: no pair can be merged."""
    check_encode(
        tokenizer.ByteLevelBPE(**by_hand(pattern=r"\s|\S")),
        "That is",
        [*b"That is"],
        "a pattern that makes each character a word",
    )


@pytest.mark.parametrize("ignore_merges", [True, False])
@pytest.mark.parametrize(
    ("text", "whole"), [("blue", [300]), ("That blue", [CAP_THAT, 301]), ("bluedog", [*b"blue", DOG]), ("b", [98])]
)
def test_task_2_encode_ignores_merges(text, whole, ignore_merges):
    """With ignore_merges, a word that is a token is not merged, even if no merges produce this token."""
    settings = by_hand(ignore_merges=ignore_merges)
    settings["vocab"] |= {"blue": 300, "\u0120blue": 301}
    merged = {"blue": [*b"blue"], "That blue": [CAP_THAT, *b" blue"]}.get(text, whole)
    where = f"a vocabulary with 'blue' and ' blue', which no merges produce, ignore_merges {ignore_merges}"
    check_encode(tokenizer.ByteLevelBPE(**settings), text, whole if ignore_merges else merged, where)


CHUNKS = ["That is", " a", " blue dog", "'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "12", "!", "e", "\u0301", "\u00e9"]
CHUNKS += ["<|im_start|>", "<|im_end|>", "<|im_", *"\u72d7\U0001f415\u200d\u00a0\x1c\u2028\ud55c"]


@property_test
@given(chunks=st.lists(st.sampled_from(CHUNKS), max_size=12))
def test_task_2_encode_formula(chunks):
    text, (ranks, vocab, special, pattern) = "".join(chunks), tables()
    check_encode(
        tokenizer.ByteLevelBPE.from_file(TABLES),
        text,
        encode_formula(text, ranks, vocab, special, pattern, "NFC"),
        "tokenizer.json",
    )


@property_test
@given(left=ANY_TEXT, right=ANY_TEXT)
def test_task_2_encode_special_tokens_separate(left, right):
    """Text on one side of a special token does not affect the other side."""
    bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
    case = f"the text {words(left + '<|im_end|>' + right)} against its two sides alone"
    with noted(case):
        whole, parts = bpe.encode(f"{left}<|im_end|>{right}"), [bpe.encode(left), bpe.encode(right)]
    same_ids(whole, [*parts[0], STOP, *parts[1]], case)


def test_task_2_encode_sweep():
    bpe, (ranks, vocab, special, pattern) = tokenizer.ByteLevelBPE.from_file(TABLES), tables()
    for text in awkward_texts():
        check_encode(bpe, text, encode_formula(text, ranks, vocab, special, pattern, "NFC"), "tokenizer.json")


def test_task_2_encode_random_sweep():
    """Shuffled ids, special tokens among them, pairs that spell the same, and each token's own text: a word may spell a
    token that its merges do not produce.
    """
    for seed in range(2):
        tables = random_tables(seed)
        bpe = tokenizer.ByteLevelBPE(**tables.arguments)
        generator, chunks = np.random.default_rng(seed), [*"abc \u00e9<", "bc", "abcab", *MORE_SPECIALS]
        texts = ["".join(map(str, generator.choice(chunks, length))) for length in range(1, 25)]
        own = [tables.bytes_of[i].decode(errors="ignore") for i in tables.vocab.values()]
        for text in [*texts, *(text for text in own if len(text) > 1)]:
            pattern = tokenizer.GPT2_PATTERN
            expected = encode_formula(text, tables.ranks, tables.vocab, tables.specials, pattern, "NFC")
            check_encode(bpe, text, expected, f"random tables, seed {seed}")
