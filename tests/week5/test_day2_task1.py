"""Task 5.2.1, packing, checked against packing token by token and against transformers' data collator."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day2 import FIELDS, IGNORE, pack64
from tests.week5.packed import EOS, documents_of

from tiny_llm.dataset import packing
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.sizes import sizes

by_field = pytest.mark.parametrize("name", FIELDS)


def field(name):
    """One array of the learner's rows, and its formula."""

    def program(documents, length, eos):
        rows = packing.pack_documents(documents, length, eos)
        if not isinstance(rows, packing.Rows):
            fail(Kind.TYPE, f"returned {type_words(rows)}, expected Rows", f"length {length}, eos {eos}")
        actual = getattr(rows, name)
        if type(actual) is mx.array:
            if actual.dtype != mx.int32:
                lines = ("expected  int32", f"got       {dtype_word(actual.dtype)}")
                fail(Kind.DTYPE, f"wrong dtype of {name}", f"length {length}, eos {eos}", *lines, size=actual.size)
            return actual.astype(mx.float32)
        return actual

    def formula(documents, length, eos, *, r=exact):
        return pack64(documents, length, eos)[name]

    return program, formula


def packs(documents, length, eos=EOS, *, names=FIELDS, **options):
    for name in names:
        agrees(*field(name), documents, length, eos, dtype=mx.float32, **options)


@by_field
def test_task_1_pack_three_documents(name):
    """Of 3, 2 and 5 tokens, in rows of 4, as in the chapter."""
    packs([[1, 2, 3], [4, 5], [6, 7, 8, 0, 1]], 4, names=[name], seed=0)


@by_field
def test_task_1_pack_two_rows(name):
    """The first hint: the last token of the first row is an eos, and document 1 is on its own in the second."""
    packs([[1, 2, 3], [4, 5]], 4, names=[name], seed=0)


@by_field
def test_task_1_pack_one_row(name):
    """Everything fits in one row, and it is full."""
    packs([[1, 2, 3], [4, 5]], 7, names=[name], seed=0)


@by_field
def test_task_1_pack_one_document_in_a_long_row(name):
    packs([[3, 1]], 8, names=[name], seed=0)


@by_field
def test_task_1_pack_full_rows(name):
    """Every document fills a row with its eos: nothing is padded, and no row is added."""
    packs(documents_of(1, 4, 4, 4), 5, names=[name], seed=1)


@by_field
def test_task_1_pack_a_long_document(name):
    """A document of 13 tokens between two short ones spans four rows."""
    packs(documents_of(2, 2, 13, 3), 4, names=[name], seed=2)


@by_field
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13, 14, 21])
def test_task_1_pack_any_length(length, name):
    packs(documents_of(3, 3, 1, 6, 2, 5), length, names=[name], seed=3)


@by_field
def test_task_1_pack_an_empty_document(name):
    """It is an eos."""
    packs([[1, 2], [], [3, 4, 5]], 3, names=[name], seed=0)


@by_field
def test_task_1_pack_equal_documents(name):
    """The same document twice is two documents."""
    packs([[1, 2], [1, 2], [1, 2]], 5, names=[name], seed=0)


@by_field
def test_task_1_pack_no_documents(name):
    packs([], 4, names=[name], seed=0)


@by_field
def test_task_1_pack_large_ids(name):
    """A vocabulary of 200,000 tokens: 16 bits are not enough."""
    packs([[199_998, 70_000], [65_536, 1]], 4, 199_999, names=[name], seed=0)


@by_field
def test_task_1_pack_eos_is_zero(name):
    packs([[1, 2, 3], [4]], 4, 0, names=[name], seed=0)


def test_task_1_pack_takes_any_iterable():
    """A generator, and documents that are NumPy arrays or tuples."""
    documents = documents_of(4, 3, 5, 2)
    kinds = {
        "a generator": lambda: (document for document in documents),
        "NumPy arrays": lambda: [np.array(document, np.int64) for document in documents],
        "tuples": lambda: [tuple(document) for document in documents],
    }
    for kind, make in kinds.items():
        for name in FIELDS:
            program, _ = field(name)

            def of_these(documents, length, eos, make=make, program=program):
                return program(make(), length, eos)

            with noted(f"{kind} of documents of 3, 5 and 2 tokens, length 4, eos 9, seed 4"):
                agrees(of_these, field(name)[1], documents, 4, EOS, seed=4, dtype=mx.float32)


def test_task_1_pack_transformers(pytorch):
    """transformers' DataCollatorWithFlattening: the same tokens, positions and labels in one row."""
    documents = documents_of(5, 3, 1, 6, 2)
    total = sum(map(len, documents)) + len(documents)

    def flattened(torch, *ids):
        from transformers import DataCollatorWithFlattening

        collate = DataCollatorWithFlattening(return_tensors="pt", separator_id=IGNORE)
        found = collate([{"input_ids": [int(i) for i in each], "labels": [int(i) for i in each]} for each in ids])
        labels = torch.cat(
            [found["labels"][:, 1:], torch.full((1, 1), IGNORE)], dim=1
        )  # it leaves the shift to the model
        return torch.cat([found["input_ids"], labels, found["position_ids"]]).float()

    answers = pytorch(flattened, *(mx.array([*document, EOS]) for document in documents))
    for name, expected in zip(("tokens", "targets", "positions"), answers, strict=True):
        packs(documents, total, names=[name], seed=5, expected=expected[None])


def test_task_1_pack_sweep():
    for n in sizes(D=20, L=131, T=1025):
        generator = np.random.default_rng(n.seed)
        lengths = generator.integers(0, n.T + 1, min(n.D, 1 + 4000 // n.T))
        packs(documents_of(n.seed, *map(int, lengths)), n.L, seed=n)


@property_test
@given(lengths=st.lists(st.integers(0, 9), max_size=6), length=st.integers(1, 8), seed=st.integers(0, 99))
def test_task_1_pack_loses_nothing(lengths, length, seed):
    """Read by document ids, the rows contain every document and its eos once; a document of n tokens has n targets."""
    documents = documents_of(seed, *lengths)
    case = f"documents of {lengths} tokens, length {length}, eos {EOS}, seed {seed}"
    with noted(case):
        rows = packing.pack_documents(documents, length, EOS)
        tokens, targets, ids = (np.array(getattr(rows, name)).flatten() for name in FIELDS[:3])
    for number, document in enumerate(documents):
        mine = [*document, EOS]
        what = f"of document {number}"
        fail_if_different(f"wrong tokens {what}", mine, tokens[ids == number].tolist(), case)
        fail_if_different(f"wrong targets {what}", [*mine[1:], IGNORE], targets[ids == number].tolist(), case)
    fail_if_different(
        "wrong number of padding tokens", -(sum(lengths) + len(lengths)) % length, int(np.sum(ids < 0)), case
    )
    fail_if_different("wrong number of targets that count", sum(lengths), int(np.sum(targets != IGNORE)), case)


@pytest.mark.parametrize("length", [0, -1])
def test_task_1_pack_refuses_other_lengths(length):
    with raises_value_error(f"one document of two tokens, length {length}", str(length)):
        packing.pack_documents([[1, 2]], length, EOS)
