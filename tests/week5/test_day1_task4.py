"""Task 5.1.4, saving the tokenizer: the file is read back by these tests, and by week 1's `ByteLevelBPE`."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.tokenizing import encode_formula, words
from tests.week5.merging import GPT2, QWEN, WORD_COUNTS, counts_of, merges_formula
from tests.week5.saving import expected_ids, read_back, same_file
from tests.week5.training_texts import recorded, texts

from tiny_llm.bpe import files
from tiny_llm.tokenizer import ByteLevelBPE
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import same_ids

FEW = [("t", "h"), ("a", "t"), ("th", "at"), ("\u0120", "d"), ("\u00c3", "\u00a9")]
END, START = "<|end|>", "<|start|>"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokenizer.json"


def check(path, merges, special=(), pattern=None, form=None):
    """Save a tokenizer and check every part of the file."""
    first = ", ".join(" + ".join(map(ascii, pair)) for pair in merges[:3])
    case = f"{len(merges)} merges ({first}, ...), special_tokens {list(special)}, normalization {form}"
    settings = {"pattern": pattern} if pattern else {}
    with noted(case):
        files.save_tokenizer(path, merges, list(special), normalization=form, **settings)
    same_file(read_back(path, case), merges, special, pattern or GPT2, form, case)


@pytest.mark.parametrize("special", [(), (END,), (START, END, "<|pad|>")], ids=str)
@pytest.mark.parametrize("form", [None, "NFC", "NFKC"])
def test_task_4_files_every_part(path, special, form):
    check(path, FEW, special, QWEN, form)


def test_task_4_files_defaults(path):
    """GPT-2's pattern, and neither special tokens nor a normalization."""
    case = "2 merges, nothing else"
    with noted(case):
        files.save_tokenizer(path, FEW[:2])
    same_file(read_back(path, case), FEW[:2], (), GPT2, None, case)


@pytest.mark.parametrize("merges", [[], FEW[:1], [("z", "z"), ("zz", "z"), ("zz", "zz"), ("b", "a")]], ids=str)
def test_task_4_files_few_merges(path, merges):
    check(path, merges, (END,))


def test_task_4_files_special_tokens_keep_their_order(path):
    check(path, FEW, ("zz", "b<|", "\u72d7", "a"[:0] + "<a>"))


@pytest.mark.parametrize("name", list(texts()))
def test_task_4_files_real_merges(path, name):
    check(path, recorded()[name], (END, START), QWEN, "NFC")


def test_task_4_files_replaces_a_file(path):
    path.write_text("x" * 100_000, encoding="utf-8")
    check(path, FEW, (END,))


@pytest.mark.parametrize("name", ["a short text", "many scripts", "a page"])
def test_task_4_files_encodes(path, name):
    """Loaded by your ByteLevelBPE, the file encodes as the formula does, special tokens included."""
    text, merges = texts()[name][0], recorded()[name]
    text = text[:60] + END + text[60:400] + START + "de\u0301j\u00e0 1234"
    case = f"the merges of the text {name!r}, special_tokens {[END, START]}, normalization NFC, the text {words(text)}"
    with noted(case):
        files.save_tokenizer(path, merges, [END, START], QWEN, "NFC")
        actual = ByteLevelBPE.from_file(path).encode(text)
    ids, special = expected_ids(merges, (END, START))
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    same_ids(actual, encode_formula(text, ranks, ids, special, QWEN, "NFC"), case)


@pytest.mark.parametrize(
    ("merges", "special", "word"),
    [
        ([("t", "h"), ("th", "at")], (), "at"),  # at is no token
        ([("th", "a"), ("t", "h")], (), "th"),  # th is one only later
        ([("a", " ")], (), " "),  # a space is written as another character
        ([("", "")], (), ""),
        ([("t", "h"), ("t", "h")], (), "th"),  # twice the same merge
        ([("a", "a"), ("aa", "a"), ("a", "aa")], (), "aaa"),  # one token from two pairs
        ([("t", "h")], ("<|end|>", "<|end|>"), "<|end|>"),
        ([("t", "h")], ("th",), "th"),
        ([("t", "h")], ("<|end|>", "t"), "t"),
    ],
    ids=str,
)
def test_task_4_files_refuses(path, merges, special, word):
    """And nothing is written."""
    case = f"merges {merges}, special_tokens {list(special)}"
    with raises_value_error(case, word):
        files.save_tokenizer(path, merges, special)
    if path.exists():
        fail(Kind.VALUES, "a file was written although the arguments are wrong", case)


def test_task_4_files_keeps_the_old_file_if_it_refuses(path):
    path.write_text("{}", encoding="utf-8")
    case = "a file exists, merges [('th', 'a')]"
    with raises_value_error(case, "th"):
        files.save_tokenizer(path, [("th", "a")])
    if path.read_text(encoding="utf-8") != "{}":
        fail(Kind.VALUES, "the file was changed although the arguments are wrong", case)


def test_task_4_files_sweep(path):
    """Any number of merges of a real text, with zero to three special tokens."""
    merges = recorded()["a page"]
    for number in range(0, 60):
        check(path, merges[: number * number // 5], [f"<|{n}|>" for n in range(number % 4)], (None, QWEN)[number % 2])


@property_test
@given(counts=WORD_COUNTS, num=st.integers(0, 20), special=st.lists(st.text("<|xyz>", min_size=2), unique=True))
def test_task_4_files_formula(counts, num, special):
    with TemporaryDirectory() as folder:
        check(Path(folder) / "tokenizer.json", merges_formula(counts, num), special)


def test_task_4_files_is_one_json_object(path):
    """A file of many scripts is read as UTF-8."""
    case = "special_tokens ['\\u72d7'], merges of the text 'many scripts'"
    with noted(case):
        files.save_tokenizer(path, merges_formula(counts_of("many scripts"), 5), ["\u72d7"])
    json.loads(path.read_bytes().decode("utf-8"))
