"""Task 4.5.2, tokens sorted by expert, checked against its formula in float64, MLX's operators and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day5 import grouped64
from tests.week4.routing import chosen, products

from tiny_llm.experts import grouped
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def through(x, w, indices):
    """Multiply every token by the matrices of its experts, N.. x k x O."""
    groups = grouped.Grouped(indices, len(w))
    return lambda x, w: groups.scatter(groups.linear(groups.gather(x), w))


def grouped_inputs(seed, dtype=mx.float32, leading=(2, 4), top_k=3, experts=5, inputs=7, outputs=6):
    """L, k, X, I and O all differ."""
    draw = normals(seed, dtype)
    w = draw(experts, outputs, inputs, spread=inputs**-0.5)
    return draw(*leading, inputs), w, chosen(seed, leading, top_k, experts)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 4)], ids=str)
def test_task_2_grouped_formula(leading, dtype):
    agrees(through, grouped64, *grouped_inputs(1, dtype, leading), seed=1)


@pytest.mark.parametrize(("top_k", "experts"), [(1, 1), (1, 5), (2, 2), (5, 5), (3, 12)])
def test_task_2_grouped_any_number(top_k, experts):
    agrees(through, grouped64, *grouped_inputs(2, top_k=top_k, experts=experts), seed=2)


@pytest.mark.parametrize(
    "experts", [[0, 0, 0], [2, 2, 2], [1, 1, 1], [0, 2, 0], [2, 0, 1], [1, 2, 0], [2, 1, 0], [2, 0, 0]], ids=str
)
def test_task_2_grouped_one_expert_each(experts):
    """Three tokens and three experts, one per token: some experts get no token."""
    x, w, _ = grouped_inputs(3, leading=(3,), experts=3)
    agrees(through, grouped64, x, w, mx.array(experts)[:, None], seed=3)


def test_task_2_grouped_three_tokens():
    """The experts (2, 0), (0, 1) and (2, 1), as in the first hint and in the chapter."""
    x, w, _ = grouped_inputs(4, leading=(3,), experts=3)
    agrees(through, grouped64, x, w, mx.array([[2, 0], [0, 1], [2, 1]]), seed=4)


def test_task_2_grouped_gathers_a_row_for_each_expert():
    """Experts in ascending order, one pair each: the sorted rows are token 0 twice, then token 1 twice and so on."""
    x, indices = normals(16)(3, 7), mx.array([[0, 1], [2, 3], [4, 5]])
    case = "float32, gather of x 3 x 7, indices [[0, 1], [2, 3], [4, 5]] of 6 experts"
    with noted(case):
        actual = grouped.Grouped(indices, 6).gather(x)
    if isinstance(actual, mx.array) and actual.shape == (6, 7) and mx.array_equal(actual[:3], x):
        # Of SHAPE, to be shown before the NaN that rows beyond the last token may contain.
        fail(Kind.SHAPE, "sorted row i is token i, but a token has one row for each of its experts", case, size=x.size)
    compare(actual, to_float64(mx.repeat(x, 2, axis=0)), mx.float32, 0, case, x.size)


def test_task_2_grouped_equal_sizes():
    """As many tokens as features and experts."""
    agrees(through, grouped64, *grouped_inputs(5, leading=(4,), top_k=4, experts=4, inputs=4, outputs=4), seed=5)


def test_task_2_grouped_unsigned_indices():
    """As returned by mx.argpartition."""
    x, w, indices = grouped_inputs(6)
    agrees(through, grouped64, x, w, indices.astype(mx.uint32), seed=6)


@pytest.mark.parametrize("second", [1, 2])
def test_task_2_grouped_two_products(second):
    """Two products in sequence, as in an MLP; the rows stay sorted."""

    @built
    def twice(x, w, v, indices):
        groups = grouped.Grouped(indices, len(w))

        def run(x, w, v):
            rows = groups.gather(x)
            for each in (w, v)[:second]:
                rows = groups.linear(rows, each)
            return groups.scatter(rows)

        return run

    def twice64(x, w, v, indices, *, r=exact):
        result = grouped64(x, w, indices, r=r)
        if second == 1:
            return result
        parts = [grouped64(result[..., i, :], v, indices[..., i : i + 1], r=r) for i in range(indices.shape[-1])]
        return np.concatenate(parts, axis=-2)

    x, w, indices = grouped_inputs(7)
    agrees(twice, twice64, x, w, normals(70)(5, 3, 6, spread=0.4), indices, seed=7)


def test_task_2_grouped_mlx():
    x, w, indices = grouped_inputs(8)
    products = mx.gather_mm(x[..., None, None, :], w.swapaxes(-1, -2), rhs_indices=indices)
    agrees(through, grouped64, x, w, indices, seed=8, expected=to_float64(products.squeeze(-2)))


def test_task_2_grouped_pytorch(pytorch):
    x, w, indices = grouped_inputs(9)

    def products(torch, x, w, indices):
        return torch.einsum("...i,...koi->...ko", x, w[indices.long()])

    agrees(through, grouped64, x, w, indices, seed=9, expected=pytorch(products, x, w, indices))


@pytest.mark.parametrize("idle", [0, 2, 4], ids=["first", "middle", "last"])
def test_task_2_grouped_idle_expert(idle):
    """One of five experts gets no token, and its weights are NaN."""
    x, w, indices = grouped_inputs(10, experts=4)
    indices = mx.where(indices >= idle, indices + 1, indices)
    w = mx.concatenate([w[:idle], normals(100)(1, 6, 7), w[idle:]])
    agrees(through, grouped64, x, w, indices, seed=10)
    spoiled = mx.where(mx.arange(5)[:, None, None] == idle, mx.nan, w)
    case = f"float32, x 2 x 4 x 7, w 5 x 6 x 7, NaN in expert {idle}'s, which gets no token, seed 10"
    with noted(case):
        actual = through(x, spoiled, indices)
    compare(actual, grouped64(to_float64(x), to_float64(w), to_float64(indices)), mx.float32, 1e-5, case, x.size)


def test_task_2_grouped_copies_no_matrix_for_a_row():
    """512 tokens with two of 64 experts each: a matrix for every row would be 16 times the size of the weights.

    The results of all experts for all rows would take as much.
    """
    inputs = grouped_inputs(11, leading=(512,), top_k=2, experts=64, inputs=64, outputs=64)
    agrees(through, grouped64, *grouped_inputs(11), seed=11)
    case = "float32, x 512 x 64, w 64 x 64 x 64, indices 512 x 2, seed 11"
    holds_less(lambda: through(*inputs), 1024 * 64 * 64, "a quarter of a matrix for each row", case=case)


def test_task_2_grouped_multiplies_by_no_idle_expert():
    """Three tokens and 12 experts: no more products than rows, whether or not the results of others are used."""
    x, w, indices = grouped_inputs(12, leading=(3,), top_k=2, experts=12)
    agrees(through, grouped64, x, w, indices, seed=12)
    case = "float32, x 3 x 7, w 12 x 6 x 7, indices 3 x 2, seed 12"
    with noted(case):
        groups = grouped.Grouped(indices, len(w))
        count = products(groups.linear(groups.gather(x), w))
    if count > indices.size:
        fail(Kind.VALUES, f"`linear` makes {count} matrix products for {indices.size} rows", case, size=x.size)


def test_task_2_grouped_multiplies_all_rows_of_an_expert_at_once():
    """Twelve tokens with two of 4 experts each: a product for each expert, not for each of the 24 rows."""
    x, w, indices = grouped_inputs(13, leading=(12,), top_k=2, experts=4)
    agrees(through, grouped64, x, w, indices, seed=13)
    case = "float32, x 12 x 7, w 4 x 6 x 7, indices 12 x 2, seed 13"
    with noted(case):
        groups = grouped.Grouped(indices, len(w))
        count = products(groups.linear(groups.gather(x), w))
    if count > len(w):
        fail(Kind.VALUES, f"`linear` makes {count} matrix products for {len(w)} experts", case, size=x.size)


def test_task_2_grouped_sweep():
    for n in sweep(T=1100, K=9, X=131, I=131, O=131):
        k = min(n.K, n.X)
        x, w, indices = grouped_inputs(n.seed, n.dtype, (n.T,), k, n.X, n.I, n.O)
        indices = n.turn(indices, mx.minimum(indices, n.X // 2), indices[:, :1])
        agrees(through, grouped64, x * n.spread, w, indices, seed=n)


@property_test
@given(tokens=st.integers(1, 9), experts=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_2_grouped_a_token_alone(tokens, experts, seed):
    """A token's result depends neither on the other tokens nor on its position among them."""
    top_k = min(2, experts)
    x, w, indices = grouped_inputs(seed, leading=(tokens,), top_k=top_k, experts=experts)
    case = f"float32, x {tokens} x 7, w {experts} x 6 x 7, indices {tokens} x {top_k}, seed {seed}, tokens one by one"
    with noted(case):
        together = through(x, w, indices)
        alone = np.stack([to_float64(through(x[i], w, indices[i])) for i in range(tokens)])
    compare(together, alone, mx.float32, 1e-5, case, x.size)


@pytest.mark.parametrize("index", [-1, 5, 100])
def test_task_2_grouped_refuses_other_experts(index):
    indices = mx.array([[0, 1], [4, index], [2, 3]])
    with raises_value_error(f"indices [[0, 1], [4, {index}], [2, 3]] of 5 experts", "5"):
        grouped.Grouped(indices, 5)
