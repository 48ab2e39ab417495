"""Task 5.3.2, the gradient of an embedding: the formula, finite differences, mx.vjp and PyTorch's autograd."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day3 import embedding64, slopes64

from tiny_llm import embedding
from tiny_llm.backward import layers
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def check_embedding(ids, dy, vocab_size, *, seed, **options):
    agrees(layers.embedding_vjp, embedding64, ids, dy, vocab_size, seed=seed, dtype=dy.dtype, **options)


def ids_of(seed, vocab_size, *shape):
    return mx.array(np.array(token_ids(seed, vocab_size, int(np.prod(shape)))).reshape(shape).astype(np.int32))


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=str)
def test_task_2_embedding_formula(leading, dtype):
    check_embedding(ids_of(1, 7, *leading), normals(1, dtype)(*leading, 5), 7, seed=1)


def test_task_2_embedding_repeated_ids():
    """The ids of the first hint: row 2 was read twice."""
    check_embedding(mx.array([2, 0, 2]), mx.array([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]]), 4, seed=0)


def test_task_2_embedding_repeated_across_rows():
    """The same id in both sequences, and one id only."""
    check_embedding(mx.array([[3, 1, 3], [1, 1, 0]]), normals(2)(2, 3, 5), 6, seed=2)
    check_embedding(mx.full((2, 3), 4), normals(3)(2, 3, 5), 6, seed=3)


def test_task_2_embedding_equal_sizes():
    check_embedding(ids_of(4, 4, 4, 4), normals(4)(4, 4, 4), 4, seed=4)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_2_embedding_of_a_frequent_token(dtype):
    """5,000 ones at one id: float16 counts to 2,048, bfloat16 to 256."""
    check_embedding(mx.full((5000,), 1), mx.ones((5000, 2), dtype), 3, seed=0)


def test_task_2_embedding_finite_differences():
    ids, dy = ids_of(5, 6, 2, 4), normals(5)(2, 4, 3)
    table = to_float64(normals(50)(6, 3))
    expected = slopes64(lambda table: table[np.array(ids)], [table], 0, to_float64(dy))
    check_embedding(ids, dy, 6, seed=5, expected=expected)


def test_task_2_embedding_mlx():
    """mx.vjp of week 1's Embedding."""
    ids, dy = ids_of(6, 7, 2, 4), normals(6)(2, 4, 3)
    _, (expected,) = mx.vjp(lambda table: embedding.Embedding(7, 3, table)(ids), [normals(60)(7, 3)], [dy])
    check_embedding(ids, dy, 7, seed=6, expected=to_float64(expected))


def test_task_2_embedding_pytorch(pytorch):
    ids, dy = ids_of(7, 7, 2, 4), normals(7)(2, 4, 3)

    def gradient(torch, ids, dy, vocab_size):
        table = torch.zeros(vocab_size, dy.shape[-1], requires_grad=True)
        torch.nn.functional.embedding(ids.long(), table).backward(dy)
        return table.grad

    check_embedding(ids, dy, 7, seed=7, expected=pytorch(gradient, ids, dy, 7))


def test_task_2_embedding_sweep():
    for n in sweep(N=7, L=1100, V=4200, E=131):
        ids = ids_of(n.seed, n.V, *n.turn((n.N, n.L), (n.L,), (n.L, n.N, 1)))
        dy = (normals(n.seed, n.dtype)(*ids.shape, n.E) * n.spread).astype(n.dtype)
        check_embedding(ids, dy, n.V, seed=n)


@property_test
@given(count=st.integers(1, 12), seed=st.integers(0, 99))
def test_task_2_embedding_in_any_order(count, seed):
    """The order of the tokens changes nothing, and all of dy arrives: the table's sum is dy's."""
    ids, dy = ids_of(seed, 5, count), normals(seed)(count, 3)
    case = f"float32, ids {count}, dy {count} x 3, vocab_size 5, seed {seed}, in another order"
    order = mx.array(np.random.default_rng(seed).permutation(count))
    with noted(case):
        table, other = layers.embedding_vjp(ids, dy, 5), layers.embedding_vjp(ids[order], dy[order], 5)
    compare(other, to_float64(table), mx.float32, 1e-5, case, dy.size)
    compare(mx.sum(table, axis=0), to_float64(dy).sum(axis=0), mx.float32, 1e-5, f"{case}: the sum", dy.size)


@pytest.mark.parametrize("shape", [(3, 2, 5), (2, 3), (6, 5), (2, 4, 5), (2, 3, 5, 1)], ids=str)
def test_task_2_embedding_refuses_other_shapes(shape):
    with raises_value_error(f"ids 2 x 3, dy {shape}, vocab_size 7", str(shape)):
        mx.eval(layers.embedding_vjp(ids_of(8, 7, 2, 3), mx.ones(shape), 7))
