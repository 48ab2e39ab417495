"""Week 1, day 6: the byte alphabet, merging, encoding, decoding, streaming text, generating tokens and text.

What is expected is written down by hand, computed by a slow formula on bytes, or recorded from Hugging Face's
`tokenizers` (`record_ids.py`). The models are a few lines: day 6 can be graded without days 1 to 5.
"""

import itertools
import json
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.drawn_tables import drawn_pairs, drawn_tables

from tiny_llm import generate, tokenizer
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, token_ids
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import LENGTHS, again, awkward_texts, same_ids, same_pieces, same_text

FOLDER = Path(__file__).parent
RECORDED = json.loads((FOLDER / "token_ids.json").read_text(encoding="utf-8"))
END, START, STOP = 656, 657, 658  # <|endoftext|>, <|im_start|>, <|im_end|> in tokenizer.json

# Every character that can be written but U+FFFD, which stands for what is broken; surrogates are no characters.
CHARACTER = st.integers(0, 0x10FFFF - 0x800 - 1).map(lambda n: chr(n + 0x800 * (n >= 0xD800) + (n >= 0xFFFD - 0x800)))
ANY_TEXT = st.one_of(st.text("ab \n\u00e9\u0301\u72d7", max_size=12), st.lists(CHARACTER, max_size=6).map("".join))

every_recorded = pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["name"])


def fail(kind, headline, case, *lines, size=0):
    raise CheckFailed(Finding(kind, headline, lines, case, size))


def words(text):
    """A text in the words of a case: every character visible."""
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:56]} ..."


# Task 1, the byte alphabet


def alphabet_formula():
    """A byte stands for itself if Unicode calls its character neither a control, nor a space, nor a format mark."""
    hidden = [byte for byte in range(256) if unicodedata.category(chr(byte)) in ("Cc", "Zs", "Cf")]
    return {byte: chr(256 + hidden.index(byte)) if byte in hidden else chr(byte) for byte in range(256)}


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


# Task 1, merging pairs


def merge_formula(symbols, ranks):
    """One join at a time: the pair of the lowest rank, where it stands first."""
    symbols = list(symbols)
    while True:
        found = [(ranks[pair], i) for i, pair in enumerate(itertools.pairwise(symbols)) if pair in ranks]
        if not found:
            return symbols
        _, i = min(found)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


def check_merge(symbols, pairs, expected, ranks=None):
    """`pairs` in the order in which they were learned, as in "b+l l+u"; these are its ranks by default."""
    ranks = ranks or {tuple(pair.split("+")): rank for rank, pair in enumerate(pairs.split())}
    case = f"the word {words(''.join(symbols))} in {len(symbols)} pieces, pairs by rank: {pairs or 'none'}"
    given: list[list[str]] = []  # to each call a list of its own, which it may give back if there is nothing to join

    def merge():
        given.append(list(symbols))
        return tokenizer.merge_pairs(given[-1], ranks)

    merged = again(merge, case)
    same_pieces(merged, expected, case)
    if any(each != list(symbols) for each in given):
        fail(Kind.INPUT_CHANGED, "the caller's `symbols` was changed", case, "make a list of your own first")


@pytest.mark.parametrize(
    ("word", "pairs", "expected"),
    [
        ("blue", "b+l u+e bl+ue", "blue"),
        ("blue", "b+l u+e", "bl ue"),
        ("blue", "l+u b+l u+e lu+e", "b lue"),  # b+l stands first, but l+u was learned first
        ("blue", "u+e l+ue b+l bl+ue", "b lue"),
        ("abcd", "b+c a+b c+d bc+d", "a bcd"),
        ("dog", "d+o do+g", "dog"),
        ("dogdog", "d+o do+g", "dog dog"),  # every place of a pair
        ("doodad", "d+o", "do o d a d"),
        ("dog", "g+o o+d", "d o g"),  # the order within a pair counts
        ("dog", "", "d o g"),
        ("d", "d+d", "d"),
        ("", "d+o", ""),
    ],
)
def test_task_1_merge_by_hand(word, pairs, expected):
    check_merge(list(word), pairs, expected.split())


@pytest.mark.parametrize(
    ("length", "expected"), [(2, "aa"), (3, "aa a"), (4, "aaaa"), (5, "aaaa a"), (6, "aaaa aa"), (7, "aaaa aa a")]
)
def test_task_1_merge_repeated_letters(length, expected):
    """In "aaa" the pair a+a stands twice, and the two share a letter: the first gets it."""
    check_merge(["a"] * length, "a+a aa+aa", expected.split())


def test_task_1_merge_long_word_sweep():
    """More joins than a program may call itself: two halves make each power of two, the largest first."""
    powers = ["a" * 2**n for n in range(11)]
    check_merge(["a"] * 1100, " ".join(f"{a}+{a}" for a in powers[:-1]), [powers[n] for n in (10, 6, 3, 2)])


def test_task_1_merge_goes_by_rank_and_not_by_place_in_the_table():
    """`ranks` may list its pairs in any order."""
    case = "the word 'blue', ranks {(b, l): 1, (l, u): 0}"
    with noted(case):
        merged = tokenizer.merge_pairs(list("blue"), {("b", "l"): 1, ("l", "u"): 0})
    same_pieces(merged, ["b", "lu", "e"], case)


def rank_of(pairs):
    return {pair: rank for rank, pair in enumerate(pairs)}


def learned(text, number):
    """Pairs as they are learned: the commonest first, never one that makes a piece that there is."""
    pieces = list(text)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < number:
        counts = Counter(itertools.pairwise(pieces))
        known = {a + b for a, b in pairs}
        fresh = [pair for pair in sorted(counts) if "".join(pair) not in known]
        if not fresh:
            break
        pairs.append(max(fresh, key=counts.__getitem__))
        pieces = merge_formula(pieces, {pairs[-1]: 0})
    return pairs


@property_test
@given(text=st.text("abc", min_size=2, max_size=60), word=st.text("abc", max_size=20), number=st.integers(1, 12))
def test_task_1_merge_formula(text, word, number):
    """A table learned from one text, used on another word."""
    pairs = learned(text, number)
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    check_merge(list(word), " ".join("+".join(pair) for pair in pairs), merge_formula(word, ranks))


def test_task_1_merge_sweep():
    """Words of all lengths, with tables of few and of many pairs, learned from such words."""
    tables_of = [learned(text, number) for text in ("abcab" * 9, "1223" * 20, "a" * 70) for number in (1, 2, 3, 8, 30)]
    text = "thatisabluedogandthedogsatonthematwiththecatatnine" * 3
    pairs = learned(text, 60)
    for begin in range(0, 90, 3):
        word = text[begin : begin + begin // 2 + 1]
        check_merge(list(word), " ".join("+".join(p) for p in pairs), merge_formula(word, rank_of(pairs)))
    for length in (0, *LENGTHS, 1009):
        for i, pairs in list(enumerate(tables_of))[0 if length < 21 else length % 3 :: 1 if length < 21 else 3]:
            word = "".join(["abcab", "12233", "aaaaa"][i // 5][(j * j + i) % 5] for j in range(length))
            check_merge(list(word), " ".join("+".join(p) for p in pairs), merge_formula(word, rank_of(pairs)))


def test_task_1_merge_drawn_sweep():
    """Tables drawn at random: pairs that spell the same, listed in any order, ranks with gaps. Words of single letters,
    and words of which some are joined already.
    """
    for seed in range(40):
        generator = np.random.default_rng(seed)
        letters = "ab" if seed % 2 else "abc"
        pairs = drawn_pairs(seed, letters, 8 + seed % 20)
        ranks = {pairs[i]: 3 * int(i) + seed for i in generator.permutation(len(pairs))}
        made = [*letters, *dict.fromkeys(a + b for a, b in pairs)]
        for length in (3, 4, 5, 8, 30):
            for pieces in (list(letters), made):
                word = [str(piece) for piece in generator.choice(pieces, length)]
                check_merge(word, " ".join("+".join(p) for p in pairs), merge_formula(word, ranks), ranks)


# Task 2, encoding


def load():
    """The learner's tokenizer with the tables of tokenizer.json."""
    return tokenizer.ByteLevelBPE.from_file(FOLDER / "tokenizer.json")


def by_hand(specials=None, normalization=None, **pattern):
    """The 256 bytes, then tokens 256 to 266 and the special tokens. Written in the letters of the alphabet."""
    pairs = "a+t t+h th+at T+h Th+at \u0120+i \u0120i+s d+o do+g \u0120+dog \u00c3+\u00a9 s+\u0120"
    merges = [(a, b) for a, _, b in (pair.partition("+") for pair in pairs.split())]
    vocab = {letter: byte for byte, letter in alphabet_formula().items()}
    vocab |= {"".join(pair): 256 + i for i, pair in enumerate(merges)}
    return tokenizer.ByteLevelBPE(vocab, merges, specials, normalization=normalization, **pattern)


AT, TH, THAT, CAP_TH, CAP_THAT, SPACE_I, SPACE_IS, DO, DOG, SPACE_DOG, E_ACUTE, S_SPACE = range(256, 268)


def check_encode(bpe, text, expected, where):
    case = f"the text {words(text)}, {where}"
    same_ids(again(lambda: bpe.encode(text), case), expected, case)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("That is", [CAP_THAT, SPACE_IS]),
        ("s s", [ord("s"), 32, ord("s")]),  # s+space is a pair, but no token reaches over two words
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
    check_encode(by_hand(), text, expected, "small tables made by hand")


@every_recorded
def test_task_2_encode_tokenizers(row):
    """Id for id what Hugging Face's `tokenizers` gives."""
    check_encode(load(), row["text"], row["ids"], f"tokenizer.json ({row['name']})")


@pytest.mark.parametrize("normalization", ["NFC", None, "NFD", "NFKC"])
def test_task_2_encode_normalises(normalization):
    """The same word with one character for e-acute and with two, and a ligature."""
    composed, apart, ligature = [E_ACUTE], [ord("e"), 0xCC, 0x81], [0xEF, 0xAC, 0x81]
    is_composed, is_apart = {"NFC": (composed,) * 2, "NFKC": (composed,) * 2, "NFD": (apart,) * 2}.get(
        normalization or "", (composed, apart)
    )
    bpe, where = by_hand(normalization=normalization), f"normalization {normalization}"
    check_encode(bpe, "\u00e9", is_composed, where)
    check_encode(bpe, "e\u0301", is_apart, where)
    check_encode(bpe, "\ufb01", [ord("f"), ord("i")] if normalization == "NFKC" else ligature, where)


SPECIALS = {"<|end|>": 300, "<|e": 301, "<|end|><|end|>": 302, "dog": 303, "e\u0301": 304}


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
        ("e\u0301\u00e9", [304, E_ACUTE]),  # what is special is found before the text is normalised
        ("<|end|>that", [300, THAT]),
        ("<|end|><|e<|end|>", [300, 301, 300]),
    ],
    ids=ascii,
)
def test_task_2_encode_special_tokens(text, expected):
    check_encode(by_hand(SPECIALS, normalization="NFC"), text, expected, f"special tokens {words(', '.join(SPECIALS))}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|dog|>", [300, *b"g|>"]),
        ("dog|>that", [301, THAT]),
        ("<|dog|>that", [300, *b"g|", 302]),
    ],
)
def test_task_2_encode_special_tokens_that_overlap(text, expected):
    """The one that begins first ends before another can begin, also before a longer one."""
    specials = {"<|do": 300, "dog|>": 301, ">that": 302}
    check_encode(by_hand(specials), text, expected, f"special tokens {', '.join(specials)}")


def test_task_2_encode_uses_the_pattern():
    """A pattern of one character a word: then no pair can be joined."""
    check_encode(by_hand(pattern=r"\s|\S"), "That is", [*b"That is"], "a pattern that makes each character a word")


def encode_formula(text, ranks, vocab, specials, pattern, form):
    """Greedy scan for special tokens; between them words; each word's bytes joined one pair at a time."""
    # White space is Unicode's, without the four control characters that Python's own adds.
    pattern = pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")
    letters, rest = alphabet_formula(), ""
    ids: list[int] = []

    def flush(part):
        for match in regex.finditer(pattern, unicodedata.normalize(form, part)):
            ids.extend(vocab[t] for t in merge_formula([letters[b] for b in match[0].encode()], ranks))

    while text:
        found = max((s for s in specials if text.startswith(s)), key=len, default=None)
        if found is None:
            rest, text = rest + text[0], text[1:]
        else:
            flush(rest)
            ids.append(specials[found])
            rest, text = "", text[len(found) :]
    flush(rest)
    return ids


@cache
def tables():
    data = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    ranks = {tuple(pair.split(" ")): i for i, pair in enumerate(data["model"]["merges"])}
    special = {token["content"]: token["id"] for token in data["added_tokens"]}
    pattern = data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return ranks, data["model"]["vocab"], special, pattern


CHUNKS = ["That is", " a", " blue dog", "'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "12", "!", "e", "\u0301", "\u00e9"]
CHUNKS += [
    "<|im_start|>",
    "<|im_end|>",
    "<|im_",
    "\u72d7",
    "\U0001f415",
    "\u200d",
    "\u00a0",
    "\x1c",
    "\u2028",
    "\ud55c",
]


@property_test
@given(chunks=st.lists(st.sampled_from(CHUNKS), max_size=12))
def test_task_2_encode_formula(chunks):
    text, (ranks, vocab, special, pattern) = "".join(chunks), tables()
    check_encode(load(), text, encode_formula(text, ranks, vocab, special, pattern, "NFC"), "tokenizer.json")


@property_test
@given(left=ANY_TEXT, right=ANY_TEXT)
def test_task_2_encode_special_tokens_separate(left, right):
    """Text on one side of a special token does not see the other side."""
    bpe = load()
    case = f"the text {words(left + '<|im_end|>' + right)} against its two sides alone"
    with noted(case):
        whole, parts = bpe.encode(f"{left}<|im_end|>{right}"), [bpe.encode(left), bpe.encode(right)]
    same_ids(whole, [*parts[0], STOP, *parts[1]], case)


def test_task_2_encode_sweep():
    bpe, (ranks, vocab, special, pattern) = load(), tables()
    for text in awkward_texts():
        check_encode(bpe, text, encode_formula(text, ranks, vocab, special, pattern, "NFC"), "tokenizer.json")


MORE_SPECIALS = ["<|e\u0301|>", "<|", "ab", "<|end|>"]


@cache
def with_drawn_tables(seed):
    """Tables drawn at random, and the learner's tokenizer with them."""
    tables = drawn_tables(seed, alphabet_formula(), MORE_SPECIALS)
    return tables, tokenizer.ByteLevelBPE(tables.vocab, tables.merges, tables.specials, normalization="NFC")


def test_task_2_encode_drawn_sweep():
    """Ids in any order, special tokens' among them, pairs that spell the same, and each token's own text: what a word
    spells may be a token that its pairs do not lead to.
    """
    for seed in range(2):
        tables, bpe = with_drawn_tables(seed)
        generator, chunks = np.random.default_rng(seed), [*"abc \u00e9<", "bc", "abcab", *MORE_SPECIALS]
        texts = ["".join(map(str, generator.choice(chunks, length))) for length in range(1, 25)]
        own = [tables.bytes_of[i].decode(errors="ignore") for i in tables.vocab.values()]
        for text in [*texts, *(text for text in own if len(text) > 1)]:
            pattern = tokenizer.GPT2_PATTERN
            expected = encode_formula(text, tables.ranks, tables.vocab, tables.specials, pattern, "NFC")
            check_encode(bpe, text, expected, f"tables drawn at random, seed {seed}")


# Task 2, decoding


def pieces_of():
    """The bytes of each token, read without the learner's help."""
    _, vocab, special, _ = tables()
    byte_of = {letter: byte for byte, letter in alphabet_formula().items()}
    pieces = {i: bytes(byte_of[letter] for letter in token) for token, i in vocab.items()}
    return pieces | {i: token.encode() for token, i in special.items()}


PIECES = pieces_of()
BYTES = {piece[0]: i for i, piece in PIECES.items() if len(piece) == 1}  # the tokens of single bytes


SPECIAL_IDS = [END, START, STOP]


def decode_formula(ids, skip=False, pieces=PIECES, specials=SPECIAL_IDS):
    return b"".join(pieces[i] for i in ids if not (skip and i in specials)).decode("utf-8", errors="replace")


def check_decode(ids, expected, what, bpe=None, **skip):
    case = f"{what}: {len(ids)} tokens, ids {words(ids)}" + (", special tokens skipped" if skip else "")
    bpe = bpe or load()
    same_text(again(lambda: bpe.decode(ids, **skip), case), expected, case)


@every_recorded
def test_task_2_decode_gives_the_text_back(row):
    """What was encoded, in its composed form."""
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
    """Only when it is asked to. What they stood between is then side by side."""
    ids = [START, 615, STOP, 281, 267, END, 486]
    check_decode(ids, "That is\U0001f415", "by hand", skip_special_tokens=True)
    check_decode(ids, "<|im_start|>That<|im_end|> is\ufffd<|endoftext|>\ufffd\ufffd", "by hand")
    bpe = by_hand(SPECIALS)  # the same letters of the alphabet, other ids of the special tokens
    for token, number in SPECIALS.items():
        case = f"token {number}, which is the special token {token!r}, skipped"
        with noted(case):
            text = bpe.decode([THAT, number, DOG], skip_special_tokens=True)
        same_text(text, "thatdog", case)


def test_task_2_decode_takes_an_iterator():
    case = "an iterator over the ids of 'That is a blue dog'"
    with noted(case):
        text = load().decode(iter([615, 281, 258, 314, 271]))
    same_text(text, "That is a blue dog", case)


@pytest.mark.parametrize("unknown", [659, -1])
def test_task_2_decode_refuses_unknown_tokens(unknown):
    with raises_error(KeyError, f"ids [615, {unknown}], where token {unknown} does not exist"):
        load().decode([615, unknown])


@property_test
@given(ids=st.lists(st.one_of(st.integers(0, 255), st.integers(256, STOP)), max_size=12), skip=st.booleans())
def test_task_2_decode_any_tokens(ids, skip):
    """Also tokens that no text gives: what is not UTF-8 becomes U+FFFD, as in Python's own decoder."""
    check_decode(ids, decode_formula(ids, skip), "any tokens", **({"skip_special_tokens": True} if skip else {}))


@cache
def awkward_ids():
    """What the sweep's texts are as tokens; every token alone, and beside others."""
    ranks, vocab, special, pattern = tables()
    texts = [encode_formula(text, ranks, vocab, special, pattern, "NFC") for text in awkward_texts()]
    return [*([i] for i in PIECES), *([i, 267, (i * 7) % 659] for i in PIECES), *texts, [*PIECES] * 7]


def test_task_2_decode_sweep():
    bpe = load()
    for ids in awkward_ids():
        check_decode(ids, decode_formula(ids), "any tokens", bpe)
        check_decode(ids, decode_formula(ids, True), "any tokens", bpe, skip_special_tokens=True)


@cache
def streams_of_every_sort(seed):
    """For tables drawn at random: all short lists of a line's end, the two halves of a character, bytes that no text
    has, the beginning of a long character and special tokens, in every order; and some long ones.
    """
    tables, _ = with_drawn_tables(seed)
    id_of = {piece: number for number, piece in tables.bytes_of.items()}
    a_few = [b"\r\n", b"\xc3", b"\xa9", b"\xff", b"\xf0", b"<|end|>", "<|e\u0301|>".encode()]
    sorts = [id_of[piece] for piece in a_few]
    generator = np.random.default_rng(seed)
    some = [[*map(int, generator.choice(sorts, length))] for length in range(4, 30)]
    return [[*ids] for n in range(4) for ids in itertools.product(sorts, repeat=n)][seed::2] + some


def test_task_2_decode_drawn_sweep():
    """Ids in any order, special tokens' among them, and every sort of token after every other."""
    for seed in range(2):
        tables, bpe = with_drawn_tables(seed)
        for skip in (False, True):
            for ids in streams_of_every_sort(seed):
                expected = decode_formula(ids, skip, tables.bytes_of, tables.specials.values())
                named = {"skip_special_tokens": True} if skip else {}
                check_decode(ids, expected, f"tables drawn at random, seed {seed}", bpe, **named)


# Task 3, streaming text


def stream(ids, case, bpe=None, **skip):
    """What a fresh detokenizer shows after each token, and at the end."""
    bpe = bpe or load()

    def pieces():
        detokenizer = tokenizer.StreamingDetokenizer(bpe, **skip)
        return [*(detokenizer.add(i) for i in ids), detokenizer.finish()]

    return again(pieces, case)


def check_stream(ids, expected, what, bpe=None, **skip):
    case = f"{what}: the pieces for {len(ids)} tokens, then finish(); ids {words(ids)}"
    same_pieces(stream(ids, case, bpe, **skip), expected, case)


def stream_formula(ids):
    """For valid text: after each token all characters that are complete, less those that were shown."""
    shown, begun, pieces = 0, b"", []
    for i in ids:
        begun += PIECES[i]
        whole = len(begun)
        while begun[:whole].decode(errors="ignore").encode() != begun[:whole]:
            whole -= 1
        pieces.append(begun[shown:whole].decode())
        shown = whole
    return [*pieces, ""]


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
    """Not shown, unless it is asked for; and a character may begin before one and end behind it."""
    ids = [START, 615, 267, STOP, 486]
    check_stream(ids, ["", "That", "", "", "\U0001f415", ""], "special tokens skipped")
    check_stream(ids[:2], ["<|im_start|>", "That", ""], "special tokens shown", skip_special_tokens=False)


def test_task_3_stream_two_texts_at_once():
    """Two detokenizers know nothing of each other."""
    case = "two detokenizers in turn, each given the two halves of a dog emoji"
    with noted(case):
        bpe = load()
        one, other = tokenizer.StreamingDetokenizer(bpe), tokenizer.StreamingDetokenizer(bpe)
        pieces = [one.add(267), other.add(267), one.add(486), other.add(486), one.finish(), other.finish()]
    same_pieces(pieces, ["", "", "\U0001f415", "\U0001f415", "", ""], case)


@property_test
@given(text=ANY_TEXT)
def test_task_3_stream_never_half_a_character(text):
    """Any text, one byte a token: the hardest way to cut it."""
    ids = [BYTES[byte] for byte in text.encode()]
    check_stream(ids, stream_formula(ids), f"the bytes of {words(text)}")


def check_joined(ids, what, bpe=None, tables=None, **skip):
    case = f"{what}: all pieces for {len(ids)} tokens joined; ids {words(ids)}"
    pieces = stream(ids, case, bpe, **skip)
    for piece in pieces:
        if not isinstance(piece, str):
            fail(Kind.TYPE, f"a piece is {type_words(piece)}, expected a str", case)
    # As large as the list of pieces: of two cases that fail, the one that shows pieces is told.
    drawn_ones = (tables.bytes_of, tables.specials.values()) if tables else ()
    expected = decode_formula(ids, skip.get("skip_special_tokens", True), *drawn_ones)
    same_text("".join(pieces), expected, case, size=len(pieces) + 1)


@property_test
@given(ids=st.lists(st.one_of(st.integers(0, 255), st.integers(256, STOP)), max_size=12), skip=st.booleans())
def test_task_3_stream_pieces_make_the_text(ids, skip):
    """Also for tokens that no text gives: joined, the pieces are what decode gives for all tokens."""
    check_joined(ids, "any tokens", skip_special_tokens=skip)


@property_test
@given(data=st.binary(max_size=8), cut=st.integers(0, 24))
def test_task_3_stream_bytes_that_are_not_text(data, cut):
    """Random bytes, and every beginning of characters of two, three and four bytes."""
    data += "\u00e9\u72d7\U0001f415\u0301\ufffd".encode()[:cut]
    check_joined([BYTES[byte] for byte in data], f"the bytes {data.hex(' ') or 'none'}")


def test_task_3_stream_sweep():
    bpe = load()
    for ids in awkward_ids():
        check_joined(ids, "any tokens", bpe)
    for text in awkward_texts():
        ids = [BYTES[byte] for byte in text.encode()]
        if len(ids) < 300:
            check_stream(ids, stream_formula(ids), f"the bytes of {words(text)}", bpe)


def test_task_3_stream_drawn_sweep():
    """Every sort of token after every other, special tokens shown and not, and the end after each."""
    for seed in range(2):
        tables, bpe = with_drawn_tables(seed)
        for skip in (False, True):
            for ids in streams_of_every_sort(seed):
                check_joined(ids, f"tables drawn at random, seed {seed}", bpe, tables, skip_special_tokens=skip)


# Task 4, generating tokens


class Model:
    """A model that can be foretold: `follow` gives the next token for all tokens so far. Notes what it was given."""

    def __init__(self, follow, case, vocab=11, dtype=mx.float32, longest=None):
        self.follow, self.case, self.vocab, self.dtype, self.longest = follow, case, vocab, dtype, longest
        self.seen = []

    def logits(self, tokens):
        """L x V, signed, largest at the token that follows each position."""
        rows = np.random.default_rng(len(tokens)).uniform(-2, 2, (len(tokens), self.vocab))
        for i in range(len(tokens)):
            rows[i, self.follow(tokens[: i + 1])] = 3.0
        return mx.array(rows.astype(np.float32)).astype(self.dtype)

    def __call__(self, tokens):
        if not isinstance(tokens, mx.array) or not mx.issubdtype(tokens.dtype, mx.integer):
            what = tokens.dtype if isinstance(tokens, mx.array) else type_words(tokens)
            fail(Kind.TYPE, f"the model was given {what}, expected an mx.array of integers", self.case)
        if tokens.ndim != 2 or len(tokens) != 1 or not tokens.size:
            shape = " x ".join(map(str, tokens.shape))
            fail(Kind.SHAPE, f"the model was given tokens of shape {shape or '()'}, expected 1 x L", self.case)
        self.seen.append(tokens[0].tolist())
        if self.longest and tokens.size > self.longest:
            fail(Kind.VALUES, f"the model was given {tokens.size} tokens, it takes {self.longest}", self.case)
        return self.logits(self.seen[-1])[None]


def count_up(tokens):
    return (tokens[-1] + 1) % 11


def add_up(tokens):
    """Depends on every token so far."""
    return (sum(tokens) + len(tokens)) % 11


def continuation(follow, prompt, number):
    tokens = list(prompt)
    for _ in range(number):
        tokens.append(follow(tokens))
    return tokens[len(prompt) :]


def drawn(iterator, case, most=50):
    """What an iterator yields, at most so much: a program that never ends is wrong and not a hanging test."""
    if not hasattr(iterator, "__next__"):
        fail(Kind.TYPE, f"got {type_words(iterator)}, expected an iterator", case)
    return list(itertools.islice(iterator, most))


def check_tokens(follow, prompt, max_tokens, expected, dtype=mx.float32, vocab=11, **options):
    shown = ", ".join(f"{name} {value}" for name, value in options.items())
    name = follow.__name__.replace("_", "s ")
    case = f"a model that {name}, prompt {words(prompt)}, max_tokens {max_tokens}" + f", {shown}" * bool(shown)
    model, given = Model(follow, case, vocab, dtype, options.get("context_length")), list(prompt)
    tokens = again(lambda: drawn(generate.generate_tokens(model, given, max_tokens, **options), case, 200), case)
    same_ids(tokens, expected, case)
    if len(model.seen) > 2 * (len(tokens) + 1):  # both times
        calls = f"{len(model.seen) // 2} times for {len(tokens)} tokens"
        fail(Kind.VALUES, f"the model was called {calls}: it is asked no more when the text has ended", case)
    for i, seen in enumerate(model.seen[: len(tokens)]):
        same_ids(seen, [*prompt, *tokens[:i]], f"what the model is given for token {i} of the answer; {case}")
    if given != prompt:
        fail(Kind.INPUT_CHANGED, "the caller's `prompt` was changed", case, "append to a list of your own")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_4_tokens_count_up(dtype):
    check_tokens(count_up, [3], 4, [4, 5, 6, 7], dtype)
    check_tokens(count_up, [7, 5, 8], 5, [9, 10, 0, 1, 2], dtype)


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 20])
def test_task_4_tokens_length_limit(max_tokens):
    check_tokens(add_up, [2, 5, 1], max_tokens, continuation(add_up, [2, 5, 1], max_tokens))


@property_test
@given(prompt=st.lists(st.integers(0, 10), min_size=1, max_size=6), max_tokens=st.integers(0, 8))
def test_task_4_tokens_formula(prompt, max_tokens):
    """Every token depends on all before it."""
    check_tokens(add_up, prompt, max_tokens, continuation(add_up, prompt, max_tokens))


def test_task_4_tokens_of_a_large_vocabulary():
    """More tokens than 16 bits can count, as real models have them."""

    def go_far(tokens):
        return (tokens[-1] + 32768) % 70000

    check_tokens(go_far, [69999], 4, continuation(go_far, [69999], 4), vocab=70000)


def test_task_4_tokens_sweep():
    """Prompts, answers and vocabularies of many sizes."""
    for n in sizes(P=1100, M=140, V=4200):

        def wander_about(tokens, n=n):
            return n.V - 1 if len(tokens) % 3 == 0 else (tokens[-1] * 7 + len(tokens)) % n.V

        prompt = token_ids(n.seed, n.V, n.P)
        answer = continuation(wander_about, prompt, n.M)
        check_tokens(wander_about, prompt, n.M, answer, n.turn(*DTYPES), n.V)
        if n.turn(True, False) and n.M <= 20:
            check_tokens(wander_about, prompt, n.M + 3, answer, vocab=n.V, context_length=n.P + n.M)
        if n.M <= 20 and (n.turn(False, True) or n.V > 256):
            ends = answer[: answer.index(answer[-1])]
            others = [n.V, n.V + 1, n.V + 2]  # which the model never says
            check_tokens(wander_about, prompt, n.M, ends, vocab=n.V, eos_ids=[*others, answer[-1]])


@pytest.mark.parametrize(
    ("eos_ids", "expected"),
    [
        ((), [4, 5, 6, 7, 8, 9, 10, 0, 1, 2]),
        ((8,), [4, 5, 6, 7]),
        ([10, 6], [4, 5]),
        ([6, 10], [4, 5]),
        ({9, 6, 7}, [4, 5]),
        ({4}, []),
        (frozenset({3}), [4, 5, 6, 7, 8, 9, 10, 0, 1, 2]),  # only what the model says ends the text, not the prompt
        ((0,), [4, 5, 6, 7, 8, 9, 10]),
    ],
    ids=str,
)
def test_task_4_tokens_end_of_text(eos_ids, expected):
    check_tokens(count_up, [3], 10, expected, eos_ids=eos_ids)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "context_length", "expected"),
    [
        ([3], 9, 4, [4, 5, 6]),
        ([1, 2, 3], 9, 5, [4, 5]),
        ([1, 2, 3], 9, 4, [4]),
        ([1, 2, 3], 9, 3, []),
        ([1, 2, 3], 2, 9, [4, 5]),
        ([1, 2, 3], 2, 5, [4, 5]),
    ],
)
def test_task_4_tokens_context_length(prompt, max_tokens, context_length, expected):
    check_tokens(count_up, prompt, max_tokens, expected, context_length=context_length)


@pytest.mark.parametrize(
    ("prompt", "options"), [([], {}), ([1, 2, 3], {"context_length": 2}), ([3], {"context_length": 0})], ids=str
)
def test_task_4_tokens_refused_at_the_call(prompt, options):
    """Before a token is asked for: an iterator that fails later fails far from the mistake."""
    case = f"prompt {prompt}, {options or 'no limit'}, no token asked for yet"
    with raises_value_error(case):
        generate.generate_tokens(Model(count_up, case), prompt, 3, **options)


def test_task_4_tokens_as_soon_as_known():
    """The first token comes before the model is asked for the second."""
    case = "a model that counts up, prompt [3], tokens taken one at a time"
    model = Model(count_up, case)
    with noted(case):
        tokens = generate.generate_tokens(model, [3], 5)
        for number in range(1, 6):
            if not drawn(tokens, case, 1):
                fail(Kind.VALUES, f"token {number} did not come", case, size=9)
            if len(model.seen) != number:
                headline = f"when token {number} came, the model had been called {len(model.seen)} times"
                fail(Kind.VALUES, headline, case, f"expected  {number}", f"got       {len(model.seen)}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_4_tokens_sampler(dtype):
    """It is asked for each token, with the last position's logits in float32, and has the last word."""
    case = f"{dtype_word(dtype)} logits, a sampler that chooses the second most likely token, prompt [3, 5]"
    model, calls = Model(add_up, case, dtype=dtype), []

    def second(logits, tokens):
        calls.append((logits, tokens if not isinstance(tokens, list) else [list(row) for row in tokens]))
        return mx.argsort(logits, axis=-1)[..., -2]

    expected = [3, 5]
    for _ in range(4):
        expected.append(int(np.argsort(to_float64(model.logits(expected)[-1]))[-2]))
    with noted(case):
        tokens = drawn(generate.generate_tokens(model, [3, 5], 4, sampler=second), case)
    same_ids(tokens, expected[2:], case)
    for i, (logits, so_far) in enumerate(calls):
        row = to_float64(model.logits(expected[: 2 + i])[-1:])
        compare(logits, row, mx.float32, 0.0, f"the logits that the sampler is given for token {i}; {case}", row.size)
        where = f"the tokens that the sampler is given for token {i}; {case}"
        if not isinstance(so_far, list) or len(so_far) != 1:
            fail(Kind.TYPE, f"the sampler was given {words(so_far)}, expected one row: a list of one list", where)
        same_ids(so_far[0], expected[: 2 + i], where)


def in_turn(first, second, case):
    """What two iterators yield that are asked in turn."""
    return [
        [item for item in items if item is not None]
        for items in zip(*drawn(itertools.zip_longest(first, second), case), strict=True)
    ]


def test_task_4_tokens_two_at_once():
    """Two texts that are continued in turn, by one model each."""
    case = "two continuations that are asked for tokens in turn, prompts [3] and [5, 6]"
    with noted(case):
        made = [generate.generate_tokens(Model(count_up, case), prompt, 4) for prompt in ([3], [5, 6])]
        tokens = in_turn(*made, case)
    for actual, expected in zip(tokens, ([4, 5, 6, 7], [7, 8, 9, 10]), strict=True):
        same_ids(actual, expected, case)


# Task 4, generating text


def check_text(prompt, script, pieces, max_tokens=20, bpe=None, **options):
    """`script` is what the model says, token for token, whatever came before; its last token again and again."""
    shown = ", ".join(f"{name} {value}" for name, value in options.items() if name != "sampler")
    case = f"prompt {words(prompt)}, the model says {script}, max_tokens {max_tokens}" + f", {shown}" * bool(shown)
    ranks, vocab, special, pattern = tables()
    before = encode_formula(prompt, ranks, vocab, special, pattern, "NFC")
    model = Model(lambda t: script[min(max(0, len(t) - len(before)), len(script) - 1)], case, vocab=STOP + 1)
    bpe = bpe or load()
    texts = again(lambda: drawn(generate.simple_generate(model, bpe, prompt, max_tokens, **options), case, 200), case)
    for text in texts:
        if not isinstance(text, str):
            fail(Kind.TYPE, f"a piece is {type_words(text)}, expected a str", case)
    same_pieces([text for text in texts if text], pieces, case)
    once = model.seen[: len(model.seen) // 2]
    for i, seen in enumerate(once[: len(script)]):
        same_ids(seen, [*before, *script[:i]], f"what the model is given for token {i} of the answer; {case}")


def test_task_4_text_five_tokens():
    check_text("That is a", [314, 271, STOP, 615], [" blue", " dog"], eos_ids=[END, STOP])


def test_task_4_text_whole_characters():
    """A dog emoji is two tokens here, and one piece."""
    check_text("That is", [267, 486, 267, 487, END], ["\U0001f415", "\U0001f436"], eos_ids=(END,))


def test_task_4_text_unfinished_character():
    check_text("That is", [258, 267], [" a", "\ufffd"], max_tokens=2)


def test_task_4_text_special_tokens():
    """In the prompt they are tokens; in the answer they are not shown."""
    prompt = "<|im_start|>user\nIs that a dog?<|im_end|>\n<|im_start|>assistant\n"
    check_text(prompt, [START, 615, 281, STOP, 258, END], ["That", " is", " a"], eos_ids=[END])


def test_task_4_text_sweep():
    """Prompts and answers of every kind."""
    bpe, (ranks, vocab, special, pattern) = load(), tables()
    texts = [text for text in awkward_texts() if text and len(text.encode()) <= 20]
    for i, text in enumerate([text for text in texts if len(text.encode()) <= 3] + texts[::4]):
        prompt = texts[(i * 11 + 3) % len(texts)]
        script = encode_formula(text, ranks, vocab, special, pattern, "NFC")
        shown = [piece for piece in stream_formula(script) if piece]
        if i % 2:
            check_text(prompt, script, shown, len(script), bpe)
        else:
            check_text(prompt, [*script, END], shown, len(script) + i % 3, bpe, eos_ids=[END])


def test_task_4_text_two_at_once():
    """Two answers of one tokenizer that come in turn: with each space an emoji is begun, and ends in the next token."""
    script, case = [283, 486, 283, 487], "two answers that are asked for pieces in turn, each two emojis of two tokens"
    bpe = load()
    with noted(case):
        models = [Model(lambda t: script[(len(t) - 1) % 4], case, vocab=STOP + 1) for _ in range(2)]
        made = [generate.simple_generate(model, bpe, "That", 4) for model in models]
        texts = in_turn(*made, case)
    for pieces in texts:
        same_pieces([piece for piece in pieces if piece], [" ", "\U0001f415", " ", "\U0001f436"], case)


@pytest.mark.parametrize("max_tokens", [0, 1, 3])
def test_task_4_text_length_limit(max_tokens):
    check_text("dog", [615, 281, 258, 314, 271], ["That", " is", " a"][:max_tokens], max_tokens=max_tokens)


def test_task_4_text_context_length():
    check_text("That is", [258, 314, 271, 271], [" a", " blue"], context_length=4)


def test_task_4_text_sampler():
    """A sampler that always says ` dog`."""
    case = "prompt 'That is', a sampler that always says ' dog', max_tokens 2"
    model = Model(lambda tokens: 258, case, vocab=STOP + 1)
    with noted(case):
        pieces = drawn(
            generate.simple_generate(model, load(), "That is", 2, sampler=lambda logits, tokens: mx.array([271])), case
        )
    same_pieces([piece for piece in pieces if piece], [" dog", " dog"], case)


@pytest.mark.parametrize(
    ("prompt", "options"), [("", {}), ("That is a", {"context_length": 2}), ("dog", {"context_length": 0})], ids=str
)
def test_task_4_text_refused_at_the_call(prompt, options):
    case = f"prompt {prompt!r}, {options or 'no limit'}, no text asked for yet"
    bpe = load()
    with raises_value_error(case):
        generate.simple_generate(Model(lambda tokens: 258, case, vocab=STOP + 1), bpe, prompt, 3, **options)


def test_task_4_text_as_soon_as_known():
    """A piece comes before the model is asked for the token after it."""
    script = [615, 267, 486, 281]
    case = f"prompt 'That', the model says {script}, pieces taken one at a time"
    model = Model(lambda t: script[min(3, len(t) - 1)], case, vocab=STOP + 1)
    with noted(case):
        texts = generate.simple_generate(model, load(), "That", 4)
        if not hasattr(texts, "__next__"):
            fail(Kind.TYPE, f"got {type_words(texts)}, expected an iterator", case)
        for piece, calls in (("That", 1), ("\U0001f415", 3), (" is", 4)):
            same_text(next((text for text in texts if text), ""), piece, case)
            if len(model.seen) != calls:
                headline = f"when {words(piece)} came, the model had been called {len(model.seen)} times"
                fail(Kind.VALUES, headline, case, f"expected  {calls}", f"got       {len(model.seen)}")
