"""Task 5.7.5, contamination, checked against a search of every place of every document."""

import weakref

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day7 import shares_by_search
from tests.week5.toy import same_floats

from tiny_llm.evaluation import contamination
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

ITEMS = [[1, 2, 3, 4, 5], [6, 7, 8, 9], [2, 3, 2, 3, 2, 3]]
DOCUMENTS = [[9, 1, 2, 3, 9], [4, 5], [8, 2, 3, 2, 1], [3, 4, 5]]


def words(items, documents, n):
    text = f"items {items}, documents {documents}, n {n}"
    return text if len(text) < 160 else f"{len(items)} items, {len(documents)} documents, n {n}"


def agree(items, documents, n, expected=None):
    case = words(items, documents, n)
    kept = [list(each) for each in items]
    with noted(case):
        actual = contamination.contaminated_share(items, (list(document) for document in documents), n)
    fail_if_different("the caller's `items` were changed", kept, [list(each) for each in items], case, len(items))
    expected = shares_by_search(items, documents, n) if expected is None else expected
    same_floats(actual, expected, "the share of item", case)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_task_5_contamination_search(n):
    agree(ITEMS, DOCUMENTS, n)


def test_task_5_contamination_whole_item():
    """A document that contains the first item whole, and nothing of the second."""
    agree([[1, 2, 3, 4], [5, 6, 7]], [[0, 0, 1, 2, 3, 4, 0]], 3, [1.0, 0.0])


def test_task_5_contamination_last_n_gram():
    """The item's last n-gram, and the document's last one."""
    agree([[1, 2, 3, 4]], [[9, 9, 2, 3, 4]], 3, [0.5])


def test_task_5_contamination_item_of_n_tokens():
    agree([[1, 2, 3], [1, 2, 4]], [[1, 2, 3]], 3, [1.0, 0.0])


def test_task_5_contamination_tokens_are_not_digits():
    """Other tokens, whose digits in a row are the same: 1 23 and 12 3."""
    agree([[1, 23, 4], [12, 3]], [[12, 3, 4], [1, 2, 34]], 2, [0.0, 1.0])


@pytest.mark.parametrize(("n", "document"), [(1, [15, 66]), (2, [15, 67]), (2, [15, 6]), (2, [5, 67])], ids=str)
def test_task_5_contamination_tokens_are_whole(n, document):
    """The digits of the item's tokens 5 and 6, as a part of other tokens."""
    agree([[5, 6]], [document], n)


def test_task_5_contamination_order_counts():
    """The same tokens in another order, or with gaps between them."""
    agree([[1, 2, 3, 4]], [[4, 3, 2, 1], [1, 9, 2, 9, 3, 9, 4]], 2, [0.0])


def test_task_5_contamination_not_across_documents():
    agree([[1, 2, 3, 4]], [[9, 1, 2], [3, 4, 9]], 3, [0.0])


def test_task_5_contamination_in_several_documents():
    """One n-gram in the first document, another in the second, one in both."""
    agree([[1, 2, 3, 4]], [[1, 2, 3], [2, 3, 4, 2, 3]], 2, [1.0])


def test_task_5_contamination_repeated_n_grams():
    """(7, 7) occurs three times among four n-grams."""
    agree([[7, 7, 7, 7, 8]], [[7, 7]], 2, [0.75])


@pytest.mark.parametrize("documents", [[], [[]], [[1, 2]]], ids=str)
def test_task_5_contamination_nothing_to_find(documents):
    """No documents, an empty one, and one that is shorter than n."""
    agree([[1, 2, 3, 4]], documents, 3, [0.0])


def test_task_5_contamination_no_items():
    agree([], DOCUMENTS, 3, [])


class Document(list[int]):
    """A list that can be observed."""


def test_task_5_contamination_one_document_at_a_time():
    """The documents come from a generator; when the next but one is requested, the first is gone."""
    case, alive, most = "1,000 documents of 20 tokens from a generator, n 3", weakref.WeakSet(), 0

    class Observed(Document):
        __hash__ = object.__hash__

    def documents():
        nonlocal most
        draw = np.random.default_rng(0)
        for _ in range(1000):
            document = Observed(draw.integers(0, 9, 20).tolist())
            alive.add(document)
            most = max(most, len(alive))
            yield document
            del document

    with noted(case):
        actual = contamination.contaminated_share([[1, 2, 3, 4]], documents(), 3)
    if most > 3:
        lines = ("expected  at most 2 documents in memory", f"got       {most}")
        fail(Kind.VALUES, "documents are kept in memory", case, *lines, size=1000)
    same_floats(actual, [1.0], "the share of item", case)


def test_task_5_contamination_keeps_no_document():
    """The n-grams of the items fit in memory, those of the documents do not."""
    case = "items [[1, 2, 3, 4]], 200 documents of 500 tokens from a generator, n 3"

    def shares():
        draw = np.random.default_rng(2)
        documents = (draw.integers(0, 99, 500).tolist() for _ in range(200))
        return mx.array(contamination.contaminated_share([[1, 2, 3, 4]], documents, 3))

    with noted(case):
        holds_less(shares, 2_000_000, "20 bytes for each n-gram of the documents", case=case)


def test_task_5_contamination_many_documents():
    """1,000,000 tokens: each is looked at once, whatever the number of items."""
    draw = np.random.default_rng(1)
    text = draw.integers(0, 2000, (100, 2000)).tolist()
    items = [text[i][i : i + 20] for i in range(100)] + [draw.integers(0, 2000, 20).tolist() for _ in range(100)]
    agree(items, text, 13, [1.0] * 100 + [0.0] * 100)


def test_task_5_contamination_sweep():
    for n in sizes(L=70, D=70, N=20):
        draw = np.random.default_rng(n.seed)
        alphabet = n.turn(2, 3, 5)
        items = [draw.integers(0, alphabet, n.N + extra).tolist() for extra in range(0, n.L, max(1, n.L // 3))]
        documents = [draw.integers(0, alphabet, n.D).tolist(), items[-1][1:], draw.integers(0, alphabet, 9).tolist()]
        agree(items, documents, n.N)


@property_test
@given(seed=st.integers(0, 99), n=st.integers(1, 4))
def test_task_5_contamination_order_of_documents(seed, n):
    draw = np.random.default_rng(seed)
    documents = [draw.integers(0, 4, size).tolist() for size in draw.integers(0, 8, 5)]
    items = [draw.integers(0, 4, 8).tolist() for _ in range(3)]
    agree(items, documents, n)
    agree(items, documents[::-1], n)


@pytest.mark.parametrize(
    ("n", "words_in_it"), [(0, ["0"]), (-1, ["-1"]), (5, ["5", "1"]), (6, ["6", "0"]), (8, ["8", "0"])]
)
def test_task_5_contamination_refuses(n, words_in_it):
    """An n-gram of no tokens; an item that is shorter than n. No document has been read then."""
    case, read = words(ITEMS, DOCUMENTS, n), []

    def documents():
        for document in DOCUMENTS:
            read.append(document)
            yield document

    with raises_value_error(case, *words_in_it):
        contamination.contaminated_share(ITEMS, documents(), n)
    if read:
        fail(Kind.VALUES, f"{len(read)} documents are read before the ValueError", case, "expected  0")
