"""Task 4.5.1, the router, checked against its formula, MLX's operators and the routers of transformers and mlx-lm."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day5 import route64
from tests.week4.routing import INTEGERS, by_sum, table_of, transformers_config

from tiny_llm.experts import router
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, to_float64
from tiny_llm_course.testkit.sizes import sweep


def weights_of_all(x, gate, top_k, normalize):
    """Check a router's choice as N.. x X: each expert's weight, and 0 for those that were not chosen."""
    indices, weights = router.route(x, gate, top_k, normalize)
    case = f"{dtype_word(x.dtype)}, x {shape_words(x.shape)}, gate {shape_words(gate.shape)}, top_k {top_k}"
    wanted = (*x.shape[:-1], top_k)
    for name, array in (("indices", indices), ("weights", weights)):
        if type(array) is not mx.array:
            fail(Kind.TYPE, f"the {name} are not an mx.array", case, size=x.size)
        if array.shape != wanted:
            lines = (f"expected  {shape_words(wanted)}", f"got       {shape_words(array.shape)}")
            fail(Kind.SHAPE, f"wrong shape of the {name}", case, *lines, size=x.size)
    if indices.dtype not in INTEGERS:
        lines = ("expected  integers", f"got       {dtype_word(indices.dtype)}")
        fail(Kind.DTYPE, "wrong dtype of the indices", case, *lines, size=x.size)
    ordered = mx.sort(indices, axis=-1)
    if mx.any(ordered[..., 1:] == ordered[..., :-1]).item():
        fail(Kind.VALUES, "a token has the same expert twice", f"{case}, normalize {normalize}", size=x.size)
    table = table_of(indices, weights, len(gate))
    if out_of_order(x, gate, indices, weights):
        expected = route64(to_float64(x), to_float64(gate), top_k, normalize)
        if np.allclose(np.sort(to_float64(table)), np.sort(expected), atol=8 * EPSILON[x.dtype]):
            headline = "each token's weights are right, but not in the order of its indices"
            fail(Kind.VALUES, headline, f"{case}, normalize {normalize}", size=x.size)
    return table


def out_of_order(x, gate, indices, weights):
    """Return whether a chosen expert with a higher score than another has a smaller weight."""
    scores = mx.take_along_axis(x.astype(mx.float32) @ gate.astype(mx.float32).T, indices, axis=-1)
    by_score = mx.take_along_axis(weights, mx.argsort(scores, axis=-1), axis=-1)
    return mx.any(by_score[..., 1:] < by_score[..., :-1]).item()


def tokens_and_gate(seed, dtype=mx.float32, leading=(3, 4), size=7, experts=6):
    draw = normals(seed, dtype)
    return draw(*leading, size), draw(experts, size, spread=size**-0.5)


@by_sum
@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (3, 4)], ids=str)
def test_task_1_route_formula(leading, dtype, normalize):
    agrees(weights_of_all, route64, *tokens_and_gate(1, dtype, leading), 2, normalize, seed=1)


@by_sum
@pytest.mark.parametrize("top_k", [1, 2, 3, 5, 6])
def test_task_1_route_any_number(top_k, normalize):
    """From one expert to all six."""
    agrees(weights_of_all, route64, *tokens_and_gate(2), top_k, normalize, seed=2)


@by_sum
def test_task_1_route_a_single_expert(normalize):
    agrees(weights_of_all, route64, *tokens_and_gate(3, experts=1), 1, normalize, seed=3)


@by_sum
@pytest.mark.parametrize("size", [4, 6], ids=["L = X = E", "L = X"])
def test_task_1_route_equal_sizes(size, normalize):
    """As many tokens as experts, as many features: axes can be confused."""
    agrees(weights_of_all, route64, *tokens_and_gate(4, mx.float32, (4,), size, 4), 2, normalize, seed=4)


@by_sum
@pytest.mark.parametrize("shift", [-300, 300])
def test_task_1_route_large_scores(shift, normalize):
    """exp(300) overflows float32. A token of ones, and rows whose sums are far from 0."""
    gate = normals(5)(6, 4) + shift / 4
    agrees(weights_of_all, route64, mx.ones((3, 4)), gate, 2, normalize, seed=5)


@by_sum
@pytest.mark.parametrize("top_k", [2, 3, 5])
def test_task_1_route_equal_scores_choose_different_experts(top_k, normalize):
    """Four of six experts have the same score: ties may be broken either way, so each token's weights are sorted."""
    x, gate = mx.ones((3, 4, 7)), mx.array([1.0, 2.0, 1.0, 0.0, 1.0, 1.0])[:, None] * mx.full((6, 7), 0.125)
    case = f"float32, x 3 x 4 x 7 of ones, gate 6 x 7, rows 0, 2, 4 and 5 are equal, top_k {top_k}, sorted weights"
    with noted(case):
        actual = mx.sort(weights_of_all(x, gate, top_k, normalize), axis=-1)
    expected = np.sort(route64(to_float64(x), to_float64(gate), top_k, normalize), axis=-1)
    compare(actual, expected, mx.float32, 1e-6, case, x.size)


@pytest.mark.parametrize("other", DTYPES, ids=str)
@by_dtype
def test_task_1_route_gate_of_another_dtype(dtype, other):
    """The weights are in x's dtype, whichever the gate has."""
    x, gate = tokens_and_gate(11, dtype)[0], tokens_and_gate(11, other)[1]
    agrees(weights_of_all, route64, x, gate, 2, True, seed=11)


CLOSE = mx.array([[4096.0, 0.5], [4096.0, 1.25], [4096.0, 0.0], [4096.0, 0.75], [4096.0, 1.0]])


@by_sum
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_route_chooses_in_float32(dtype, normalize):
    """Scores near 4,096: in the narrow dtypes all of them are 4,096, and indistinguishable."""
    agrees(weights_of_all, route64, mx.array([1.0, 1.0]).astype(dtype), CLOSE.astype(dtype), 2, normalize, seed=6)


@by_sum
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_route_weighs_in_float32(dtype, normalize):
    """The same scores, with all experts: in a narrow dtype they would have equal weights, however ties are broken."""
    agrees(weights_of_all, route64, mx.array([1.0, 1.0]).astype(dtype), CLOSE.astype(dtype), 5, normalize, seed=6)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_route_rounds_once(dtype):
    """Divided by their sum in float32, and then rounded: each weight is half a unit in the last place off, not one."""
    x, gate = tokens_and_gate(9, dtype, (64,))
    expected = route64(to_float64(x), to_float64(gate), 3, True)
    case = f"{dtype_word(dtype)}, x 64 x 7, gate 6 x 7, top_k 3, normalize True"
    with noted(case):
        actual = weights_of_all(x, gate, 3, True)
    compare(actual, expected, dtype, 0.51 * EPSILON[dtype] * expected, case, x.size)


def test_task_1_route_four_experts():
    """Probabilities of 0.4, 0.3, 0.2 and 0.1, as in chapter 4.5."""
    gate = mx.log(mx.array([[0.1], [0.4], [0.2], [0.3]]))
    for normalize, expected in ((True, [0, 4 / 7, 0, 3 / 7]), (False, [0, 0.4, 0, 0.3])):
        case = f"float32, probabilities 0.1, 0.4, 0.2 and 0.3, top_k 2, normalize {normalize}"
        with noted(case):
            actual = weights_of_all(mx.ones(1), gate, 2, normalize)
        compare(actual, np.array(expected), mx.float32, 1e-6, case, 4)


@by_sum
def test_task_1_route_mlx(normalize):
    x, gate = tokens_and_gate(7)
    probabilities = mx.softmax(x @ gate.T, axis=-1, precise=True)
    least = mx.min(mx.topk(probabilities, 3, axis=-1), axis=-1, keepdims=True)
    kept = mx.where(probabilities >= least, probabilities, 0.0)
    expected = to_float64(kept / mx.sum(kept, axis=-1, keepdims=True) if normalize else kept)
    agrees(weights_of_all, route64, x, gate, 3, normalize, seed=7, expected=expected)


@by_sum
def test_task_1_route_pytorch(pytorch, normalize):
    """The router of transformers' Qwen3-MoE."""
    x, gate = tokens_and_gate(8, leading=(4,))

    def routed(torch, x, gate, top_k, normalize):
        from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

        own = Qwen3MoeTopKRouter(transformers_config(x.shape[-1], len(gate), top_k, normalize))
        own.weight.data = gate
        scores, weights, indices = own(x)
        return torch.zeros_like(scores).scatter(-1, indices, weights).detach()

    expected = pytorch(routed, x, gate, 3, normalize)
    agrees(weights_of_all, route64, x, gate, 3, normalize, seed=8, expected=expected)


def test_task_1_route_sweep():
    for n in sweep(N=131, X=1100, E=4200, K=20):
        x, gate = tokens_and_gate(n.seed, n.dtype, (n.N,), n.E, n.X)
        x = (x * n.turn(1.0, 0.1, 5.0) * min(n.spread, 30.0)).astype(n.dtype)
        agrees(weights_of_all, route64, n.turn(x, x[0], x[:, None]), gate, min(n.K, n.X), n.turn(True, False), seed=n)


@property_test
@given(experts=st.integers(1, 8), top_k=st.integers(1, 8), seed=st.integers(0, 99))
def test_task_1_route_weights_sum_to_one(experts, top_k, seed):
    top_k = min(top_k, experts)
    x, gate = tokens_and_gate(seed, experts=experts)
    case = f"float32, x 3 x 4 x 7, gate {experts} x 7, top_k {top_k}, normalize True, seed {seed}: the sum of weights"
    with noted(case):
        total = mx.sum(weights_of_all(x, gate, top_k, True), axis=-1)
    compare(total, np.ones((3, 4)), mx.float32, 1e-5, case, x.size)


@pytest.mark.parametrize("top_k", [-1, 0, 7])
def test_task_1_route_refuses_other_numbers(top_k):
    x, gate = tokens_and_gate(9)
    with raises_value_error(f"float32, x 3 x 4 x 7, gate 6 x 7, top_k {top_k}", str(top_k), "6"):
        mx.eval(router.route(x, gate, top_k, True))
