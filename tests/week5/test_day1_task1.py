"""Task 5.1.1, counting words, checked against a formula that scans a text character by character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.tokenizing import ANY_TEXT, words
from tests.week5.merging import GPT2, QWEN, same_counts, words_formula
from tests.week5.training_texts import texts

from tiny_llm.bpe import words as counting
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import awkward_texts


def check(given_texts, pattern=None, special=(), form=None, where=""):
    """Check the counts of some texts with these settings."""
    shown = ", ".join(map(words, given_texts[:2])) + ", ..." * (len(given_texts) > 2)
    case = where or f"texts {shown}, special_tokens {list(special)!a}, normalization {form}"
    settings = {"special_tokens": special, "normalization": form} | ({"pattern": pattern} if pattern else {})
    with noted(case):
        actual = counting.count_words(list(given_texts), **settings)
    same_counts(actual, words_formula(given_texts, pattern or GPT2, special, form), case)


def test_task_1_words_by_hand():
    """As in the chapter."""
    case = "text 'That is a blue dog. A blue dog!'"
    expected = {"That": 1, "\u0120is": 1, "\u0120a": 1, "\u0120blue": 2, "\u0120dog": 2, ".": 1, "\u0120A": 1, "!": 1}
    with noted(case):
        actual = counting.count_words(["That is a blue dog. A blue dog!"])
    same_counts(actual, expected, case)


TEXTS = ["", "dog", " dog  dog", "dog\n\ndog \n", "\u00e9", "\U0001f415 \U0001f415", "it's 12 dogs!"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_task_1_words_of_one_text(text):
    check([text])


@pytest.mark.parametrize("given_texts", [(), ("blue", "dog"), ("blue ", " dog", "blue "), ("", "dog", "")], ids=str)
def test_task_1_words_of_several_texts(given_texts):
    """No word spans two texts: "blue", "dog" are not bluedog."""
    check(given_texts)


def test_task_1_words_reads_a_generator_once():
    case = "a generator of 'a dog' and 'a dog'"
    with noted(case):
        actual = counting.count_words("a dog" for _ in range(2))
    same_counts(actual, words_formula(["a dog", "a dog"]), case)


@pytest.mark.parametrize(
    ("text", "special"),
    [
        ("dog<|end|>dog", ["<|end|>"]),
        ("dog<|end|> dog<|end|><|end|>", ["<|end|>"]),
        ("<|e dog end> |", ["<|end|>"]),  # its characters alone are not special
        ("a.b acb", ["a.b"]),  # no regular expression
        ("<|e<|end|>dog<|end|>", ["<|e", "<|end|>", "dog<|end|>"]),  # the longest wins
        ("<|e<|end|>dog<|end|>", ["dog<|end|>", "<|end|>", "<|e"]),  # the same in another order
        ("<|e<|e<|end|>", ["<|e", "<|e<|end|>"]),
        ("<|e<|e<|end|>", ["<|e<|end|>", "<|e"]),
        ("<|end|><|end|>dog", ["<|end|>", "<|end|><|end|>"]),
        (" <|end|> dog <|end|>", ["<|end|>"]),
        ("dog", []),
    ],
    ids=ascii,
)
def test_task_1_words_special_tokens(text, special):
    check([text], special=special)


@pytest.mark.parametrize("form", [None, "NFC", "NFD", "NFKC"])
def test_task_1_words_normalizes(form):
    """A word that is written in two ways, a ligature, and a special token that normalization would change."""
    check(["\u00e9t\u00e9 e\u0301te\u0301 \ufb01n fin \u212b"], form=form)
    check(["ae\u0301b \u00e9 e\u0301"], special=["e\u0301"], form=form)
    check(["e<|end|>\u0301 x"], special=["<|end|>"], form=form)
    check(["x\u00a0y"], form=form)  # NFKC makes it a space, and one word more


@pytest.mark.parametrize(
    ("text", "special", "form"), [("e\u0301", "\u00e9", "NFC"), ("\u00e9", "e\u0301", "NFD"), ("\ufb01", "fi", "NFKC")]
)
def test_task_1_words_that_normalization_makes_special(text, special, form):
    """Special tokens are found before the text is normalized: such a text is counted."""
    check([text, f"{special}{text}", special], special=[special], form=form)


@pytest.mark.parametrize("pattern", [QWEN, r"\s|\S", r"\S+", r"[a-z]+"], ids=ascii)
def test_task_1_words_pattern(pattern):
    """Text that the pattern does not match is not counted."""
    check(["That's 123 dogs' DOG'S,\n\n ok \x1cdog\x1d"], pattern)


@pytest.mark.parametrize("name", list(texts()))
def test_task_1_words_of_a_long_text(name):
    check(texts()[name][0].splitlines(keepends=True), QWEN, ["<|end|>"], "NFC", f"the text {name!r}, line by line")


def test_task_1_words_sweep():
    """Texts of every kind and length: one at a time, with specials, and all of them as one list."""
    many = awkward_texts()
    for number, text in enumerate(many):
        form = (None, "NFC", "NFD", "NFKC")[number % 4]
        special = ([], ["<|end|>"], ["dog", "a"], ["!", "!?", "\n\n"])[number % 3]
        check([text], (None, QWEN)[number % 2], special, form)
    check(many, where="all of these texts")


@property_test
@given(parts=st.lists(ANY_TEXT, max_size=4), form=st.sampled_from([None, "NFC", "NFKC"]))
def test_task_1_words_special_tokens_are_borders(parts, form):
    """Texts joined by a special token have the counts of the separate texts."""
    parts = [part.replace("<", "") for part in parts]
    joined = "<|end|>".join(parts)
    case = f"text {words(joined)}, special_tokens ['<|end|>'], normalization {form}"
    with noted(case):
        actual = counting.count_words([joined], special_tokens=["<|end|>"], normalization=form)
    same_counts(actual, words_formula(parts, form=form), case)
