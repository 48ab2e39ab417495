"""Task 5.2.2, the document mask, checked against its formula, MLX's and PyTorch's attention and PyTorch's masks."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day2 import mask64

from tiny_llm.dataset import packing
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes


def mask_of(document_ids):
    """Return the learner's mask as ones and zeros."""
    mask = packing.document_mask(document_ids)
    if type(mask) is mx.array:
        if mask.dtype != mx.bool_:
            lines = ("expected  bool", f"got       {dtype_word(mask.dtype)}")
            fail(Kind.DTYPE, "wrong dtype", f"document_ids {shape_words(document_ids.shape)}", *lines, size=mask.size)
        return mask.astype(mx.float32)
    return mask


def masks(document_ids, **options):
    agrees(mask_of, mask64, document_ids, dtype=mx.float32, **options)


def ids_of(seed, *leading, length=6):
    """Return rows of documents of 1 to 3 tokens, some cut off by the row."""
    generator = np.random.default_rng(seed)
    steps = generator.random((*leading, length)) < 0.4
    return mx.array(np.cumsum(steps, axis=-1).astype(np.int32))


def test_task_2_mask_two_documents():
    """0, 0, 1, 1, as in the first hint."""
    masks(mx.array([[0, 0, 1, 1]]), seed=0)


@pytest.mark.parametrize("leading", [(), (2,), (3, 2)], ids=str)
def test_task_2_mask_formula(leading):
    masks(ids_of(1, *leading), seed=1)


def test_task_2_mask_one_document():
    """A row of one document: a causal mask."""
    masks(mx.zeros((2, 5), mx.int32), seed=0)


def test_task_2_mask_one_token_each():
    """Every token is a document: it sees itself."""
    masks(mx.arange(5)[None], seed=0)


def test_task_2_mask_one_token():
    masks(mx.array([[3]]), seed=0)


def test_task_2_mask_padding():
    """Padding sees padding, and no row of the mask is without True."""
    masks(mx.array([[7, 7, 8, -1, -1], [0, 0, 0, 0, 0]]), seed=0)


def test_task_2_mask_equal_sizes():
    """As many rows as tokens: axes can be confused."""
    masks(ids_of(2, 4, length=4), seed=2)


def test_task_2_mask_any_integers():
    """Document ids of other integer dtypes, and far from 0."""
    for dtype in (mx.int64, mx.uint32, mx.int16):
        masks((ids_of(3, 2) + 300).astype(dtype), seed=3)


@pytest.mark.parametrize("heads", [1, 3])
def test_task_2_mask_mlx(heads):
    """MLX's attention over a packed row equals attention over each document alone."""
    lengths, draw = (3, 1, 4), normals(4)
    query, key, value = draw(2, heads, 8, 4), draw(2, heads, 8, 4), draw(2, heads, 8, 4)
    ids = mx.array(np.repeat([[0, 1, 2], [5, 6, 7]], lengths, axis=1))
    case = f"document_ids 2 x 8 of 3, 1 and 4 tokens, {heads} heads, seed 4, mx.fast.scaled_dot_product_attention"
    with noted(case):
        packed = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=packing.document_mask(ids))
        mx.eval(packed)
    alone = []
    for n, end in zip(lengths, np.cumsum(lengths), strict=True):
        own = [x[:, :, end - n : end] for x in (query, key, value)]
        alone.append(mx.fast.scaled_dot_product_attention(*own, scale=0.5, mask="causal"))
    compare(packed, to_float64(mx.concatenate(alone, axis=2)), mx.float32, 1e-5, case, query.size)


def test_task_2_mask_pytorch(pytorch):
    """PyTorch's mask for flex_attention, from a function of one query and one key."""
    ids = ids_of(5, 3, length=7)

    def created(torch, ids):
        from torch.nn.attention.flex_attention import create_mask

        def visible(b, h, query, key):
            return (ids[b, query] == ids[b, key]) & (query >= key)

        return create_mask(visible, ids.shape[0], None, ids.shape[1], ids.shape[1], device="cpu").float()

    masks(ids, seed=5, expected=pytorch(created, ids))


def test_task_2_mask_sweep():
    for n in sizes(N=20, L=257):
        masks(ids_of(n.seed, *n.turn((n.N,), (), (n.N, 1)), length=n.L), seed=n)


@property_test
@given(length=st.integers(1, 9), seed=st.integers(0, 99))
def test_task_2_mask_counts_positions(length, seed):
    """A token sees as many keys as its position in the document plus one."""
    ids = ids_of(seed, 2, length=length)
    case = f"document_ids 2 x {length}, seed {seed}: the number of keys that each token sees"
    with noted(case):
        seen = mx.sum(mask_of(ids), axis=(-3, -1))
    expected = [[row[: i + 1].count(each) for i, each in enumerate(row)] for row in ids.tolist()]
    compare(seen, np.array(expected, np.float64), mx.float32, 0.0, case, ids.size)
