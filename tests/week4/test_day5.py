"""Week 4, day 5: the router, tokens sorted by expert, the sparse block, and the experts' load.

Each task is held to the formula in float64, to MLX's own operators, to mlx-lm's and transformers' blocks of Qwen3-MoE
by what was recorded of them, and to properties: a token does not know who else is in its batch.
"""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day5 import grouped64, load64, moe64, route64
from tests.week4.routing import chosen, table_of

from tiny_llm.experts import grouped, load, moe, router
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes, sweep

by_sum = pytest.mark.parametrize("normalize", [True, False], ids=["normalised", "as they are"])
INTEGERS = (mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64)


# Task 1, the router


def weights_of_all(x, gate, top_k, normalize):
    """What a router chose, as N.. x X: each expert's weight at its place, and 0 for those that were not chosen."""
    indices, weights = router.route(x, gate, top_k, normalize)
    case = f"{dtype_word(x.dtype)}, x {shape_words(x.shape)}, gate {shape_words(gate.shape)}, top_k {top_k}"
    wanted = (*x.shape[:-1], top_k)
    for name, array in (("indices", indices), ("weights", weights)):
        if type(array) is not mx.array:
            raise CheckFailed(Finding(Kind.TYPE, f"the {name} are no mx.array", (), case, x.size))
        if array.shape != wanted:
            lines = (f"expected  {shape_words(wanted)}", f"got       {shape_words(array.shape)}")
            raise CheckFailed(Finding(Kind.SHAPE, f"wrong shape of the {name}", lines, case, x.size))
    if indices.dtype not in INTEGERS:
        lines = ("expected  integers", f"got       {dtype_word(indices.dtype)}")
        raise CheckFailed(Finding(Kind.DTYPE, "wrong dtype of the indices", lines, case, x.size))
    return table_of(indices, weights, len(gate))


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
    """As many tokens as experts, as many features: axes can be taken for each other."""
    agrees(weights_of_all, route64, *tokens_and_gate(4, mx.float32, (4,), size, 4), 2, normalize, seed=4)


@by_sum
@pytest.mark.parametrize("shift", [-300, 300])
def test_task_1_route_large_scores(shift, normalize):
    """exp(300) is more than float32 holds. A token of ones, and rows whose sums are far from 0."""
    gate = normals(5)(6, 4) + shift / 4
    agrees(weights_of_all, route64, mx.ones((3, 4)), gate, 2, normalize, seed=5)


@by_sum
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_route_chooses_in_float32(dtype, normalize):
    """Scores of 4,096 and a little: in the narrow dtypes all of them are 4,096, and no choice is left."""
    gate = mx.array([[4096.0, 0.5], [4096.0, 1.25], [4096.0, 0.0], [4096.0, 0.75], [4096.0, 1.0]]).astype(dtype)
    agrees(weights_of_all, route64, mx.array([1.0, 1.0]).astype(dtype), gate, 2, normalize, seed=6)


def test_task_1_route_four_experts():
    """Probabilities of 0.4, 0.3, 0.2 and 0.1, as chapter 4.5 prints them."""
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


def transformers_config(size, experts, top_k, normalize, width=4):
    """The config that makes transformers' blocks."""
    from transformers import Qwen3MoeConfig

    return Qwen3MoeConfig(
        hidden_size=size, num_experts=experts, num_experts_per_tok=top_k, norm_topk_prob=normalize,
        moe_intermediate_size=width,
    )  # fmt: skip


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


# Task 2, tokens sorted by expert


@built
def through(x, w, indices):
    """Every token through the matrices of its experts, N.. x k x O."""
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
    """Three tokens and three experts, one for each token: nobody goes to some of the experts."""
    x, w, _ = grouped_inputs(3, leading=(3,), experts=3)
    agrees(through, grouped64, x, w, mx.array(experts)[:, None], seed=3)


def test_task_2_grouped_three_tokens():
    """The experts (2, 0), (0, 1) and (2, 1), as in the first hint and in the chapter."""
    x, w, _ = grouped_inputs(4, leading=(3,), experts=3)
    agrees(through, grouped64, x, w, mx.array([[2, 0], [0, 1], [2, 1]]), seed=4)


def test_task_2_grouped_equal_sizes():
    """As many tokens as features and experts."""
    agrees(through, grouped64, *grouped_inputs(5, leading=(4,), top_k=4, experts=4, inputs=4, outputs=4), seed=5)


def test_task_2_grouped_unsigned_indices():
    """As mx.argpartition gives them."""
    x, w, indices = grouped_inputs(6)
    agrees(through, grouped64, x, w, indices.astype(mx.uint32), seed=6)


@pytest.mark.parametrize("second", [1, 2])
def test_task_2_grouped_two_products(second):
    """One product behind another one, as an MLP has them, the rows staying as they are sorted."""

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
    """Nobody goes to one of five experts, and its weights are NaN."""
    x, w, indices = grouped_inputs(10, experts=4)
    indices = mx.where(indices >= idle, indices + 1, indices)
    w = mx.concatenate([w[:idle], normals(100)(1, 6, 7), w[idle:]])
    agrees(through, grouped64, x, w, indices, seed=10)
    spoilt = mx.where(mx.arange(5)[:, None, None] == idle, mx.nan, w)
    case = f"float32, x 2 x 4 x 7, w 5 x 6 x 7, NaN in expert {idle}'s, to which nobody goes, seed 10"
    with noted(case):
        actual = through(x, spoilt, indices)
    compare(actual, grouped64(to_float64(x), to_float64(w), to_float64(indices)), mx.float32, 1e-5, case, x.size)


def test_task_2_grouped_copies_no_matrix_for_a_row():
    """512 tokens with two of 4 experts each: a matrix for every row would be 256 times what these hold."""
    inputs = grouped_inputs(11, leading=(512,), top_k=2, experts=4, inputs=64, outputs=64)
    agrees(through, grouped64, *grouped_inputs(11), seed=11)
    case = "float32, x 512 x 64, w 4 x 64 x 64, indices 512 x 2, seed 11"
    holds_less(lambda: through(*inputs), 1024 * 64 * 64, "a quarter of a matrix for each row", case=case)


def test_task_2_grouped_sweep():
    for n in sweep(T=1100, K=9, X=131, I=131, O=131):
        k = min(n.K, n.X)
        x, w, indices = grouped_inputs(n.seed, n.dtype, (n.T,), k, n.X, n.I, n.O)
        indices = n.turn(indices, mx.minimum(indices, n.X // 2), indices[:, :1])
        agrees(through, grouped64, x * n.spread, w, indices, seed=n)


@property_test
@given(tokens=st.integers(1, 9), experts=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_2_grouped_a_token_alone(tokens, experts, seed):
    """What comes out for a token does not depend on the others, nor on where it stands among them."""
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


# Task 3, the sparse block


@built
def sparse(x, gate, w_gate, w_up, w_down, top_k, normalize):
    block = moe.SparseMoE(gate, w_gate, w_up, w_down, top_k, normalize)
    return lambda x: block(x)


def moe_inputs(seed, dtype=mx.float32, leading=(3, 4), size=7, width=6, experts=5):
    """L, E, I and X all differ."""
    draw = normals(seed, dtype)
    x, gate = draw(*leading, size), draw(experts, size, spread=2 * size**-0.5)
    w_gate, w_up = (draw(experts, width, size, spread=1.5 * size**-0.5) for _ in range(2))
    return x, gate, w_gate, w_up, draw(experts, size, width, spread=2 * width**-0.5)


@by_sum
@by_dtype
@pytest.mark.parametrize("leading", [(4,), (3, 4), (2, 1, 4)], ids=str)
def test_task_3_moe_formula(leading, dtype, normalize):
    agrees(sparse, moe64, *moe_inputs(23, dtype, leading), 2, normalize, seed=23)


@by_sum
@pytest.mark.parametrize("top_k", [1, 2, 3, 5])
def test_task_3_moe_any_number(top_k, normalize):
    agrees(sparse, moe64, *moe_inputs(2), top_k, normalize, seed=2)


@by_sum
@pytest.mark.parametrize("leading", [(1,), (1, 1), (5, 1)], ids=str)
def test_task_3_moe_one_token(leading, normalize):
    """A decode step, of one row and of five."""
    agrees(sparse, moe64, *moe_inputs(3, leading=leading), 2, normalize, seed=3)


@by_sum
def test_task_3_moe_equal_sizes(normalize):
    agrees(sparse, moe64, *moe_inputs(4, leading=(4,), size=4, width=4, experts=4), 2, normalize, seed=4)


@by_sum
def test_task_3_moe_a_single_expert(normalize):
    """One expert, of weight 1, is an MLP."""
    agrees(sparse, moe64, *moe_inputs(5, experts=1), 1, normalize, seed=5)


@by_sum
def test_task_3_moe_alike(normalize):
    """All experts are the same, so that it does not matter who is chosen; the weights' sum is left to see."""
    x, gate, *weights = moe_inputs(6)
    agrees(sparse, moe64, x, gate, *(mx.broadcast_to(w[:1], w.shape) for w in weights), 2, normalize, seed=6)


@by_sum
def test_task_3_moe_all_choose_the_same(normalize):
    """A router that prefers experts 1 and 3 for every token; the others have nothing to do, and NaN for weights."""
    x, gate, *weights = moe_inputs(7)
    x = mx.abs(x)
    gate = mx.abs(gate) * mx.array([[-1.0], [1.0], [-1.0], [2.0], [-1.0]])
    agrees(sparse, moe64, x, gate, *weights, 2, normalize, seed=7)
    idle = mx.array([True, False, True, False, True])[:, None, None]
    case = f"float32, x 3 x 4 x 7, 5 experts, NaN in those to which nobody goes, normalize {normalize}, seed 7"
    with noted(case):
        actual = sparse(x, gate, *(mx.where(idle, mx.nan, w) for w in weights), 2, normalize)
    expected = moe64(*map(to_float64, (x, gate, *weights)), 2, normalize)
    compare(actual, expected, mx.float32, 1e-4, case, x.size)


@by_sum
def test_task_3_moe_mlx(normalize):
    """The same, put together from MLX's own operators."""
    x, gate, w_gate, w_up, w_down = inputs = moe_inputs(8)
    probabilities = mx.softmax(x @ gate.T, axis=-1, precise=True)
    indices = mx.argsort(-probabilities, axis=-1)[..., :2]
    weights = mx.take_along_axis(probabilities, indices, axis=-1)
    weights = weights / mx.sum(weights, axis=-1, keepdims=True) if normalize else weights

    def product(y, w):
        return mx.gather_mm(y, w.swapaxes(-1, -2), rhs_indices=indices)

    y = x[..., None, None, :]
    gated = product(y, w_gate)
    outputs = product(gated * mx.sigmoid(gated) * product(y, w_up), w_down).squeeze(-2)
    expected = to_float64(mx.sum(outputs * weights[..., None], axis=-2))
    agrees(sparse, moe64, *inputs, 2, normalize, seed=8, expected=expected)


@by_sum
def test_task_3_moe_mlx_lm(pytorch, normalize):
    """mlx-lm's block of Qwen3-MoE on the same weights; what it gave is recorded with PyTorch's answers."""
    inputs = moe_inputs(9)

    def block(torch, *arrays):
        from mlx_lm.models.qwen3_moe import ModelArgs, Qwen3MoeSparseMoeBlock

        x, gate, w_gate, w_up, w_down = (mx.array(each.numpy()) for each in arrays)
        own = Qwen3MoeSparseMoeBlock(
            ModelArgs(
                model_type="qwen3_moe", hidden_size=x.shape[-1], num_hidden_layers=1, intermediate_size=8,
                num_attention_heads=1, num_experts=len(gate), num_experts_per_tok=2, decoder_sparse_step=1,
                mlp_only_layers=[], moe_intermediate_size=w_up.shape[1], rms_norm_eps=1e-6, vocab_size=8,
                num_key_value_heads=1, head_dim=8, rope_theta=1e6, tie_word_embeddings=False,
                max_position_embeddings=8, norm_topk_prob=normalize,
            )
        )  # fmt: skip
        own.load_weights(
            [("gate.weight", gate), ("switch_mlp.gate_proj.weight", w_gate), ("switch_mlp.up_proj.weight", w_up),
             ("switch_mlp.down_proj.weight", w_down)]
        )  # fmt: skip
        return torch.from_numpy(np.array(own(x)))

    agrees(sparse, moe64, *inputs, 2, normalize, seed=9, expected=pytorch(block, *inputs))


@by_sum
def test_task_3_moe_pytorch(pytorch, normalize):
    """transformers' block of Qwen3-MoE on the same weights."""
    inputs = moe_inputs(10)

    def block(torch, x, gate, w_gate, w_up, w_down):
        from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

        own = Qwen3MoeSparseMoeBlock(transformers_config(x.shape[-1], len(gate), 2, normalize, w_up.shape[1]))
        own.gate.weight.data = gate
        own.experts.gate_up_proj.data = torch.cat([w_gate, w_up], dim=1)
        own.experts.down_proj.data = w_down
        return own(x).detach()

    agrees(sparse, moe64, *inputs, 2, normalize, seed=10, expected=pytorch(block, *inputs))


def test_task_3_moe_copies_no_matrix_for_a_row():
    """256 tokens with two experts each, of which there are 4."""
    x, gate, *weights = moe_inputs(11, leading=(1, 256), size=64, width=64, experts=4)
    agrees(sparse, moe64, *moe_inputs(11), 2, True, seed=11)
    case = "float32, x 1 x 256 x 64, 4 experts of width 64, top_k 2, seed 11"
    holds_less(
        lambda: sparse(x, gate, *weights, 2, True), 512 * 64 * 64, "a quarter of a matrix for each row", case=case
    )


def test_task_3_moe_sweep():
    for n in sweep(N=20, L=257, E=131, I=131, X=131, K=9):
        x, *weights = moe_inputs(n.seed, n.dtype, (n.N, n.L), n.E, n.I, n.X)
        x = (x * min(n.spread, 30.0)).astype(n.dtype)
        agrees(sparse, moe64, x, *weights, min(n.K, n.X), n.turn(True, False), seed=n)


@property_test
@given(length=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_3_moe_a_token_alone(length, seed):
    """A token's output does not depend on who else is there."""
    x, *weights = moe_inputs(seed, leading=(2, length))
    case = f"float32, x 2 x {length} x 7, 5 experts, top_k 2, normalize True, seed {seed}, tokens one by one"
    with noted(case):
        together = sparse(x, *weights, 2, True)
        alone = [[to_float64(sparse(x[i, j : j + 1], *weights, 2, True))[0] for j in range(length)] for i in range(2)]
    compare(together, np.array(alone), mx.float32, 1e-4, case, x.size)


@property_test
@given(seed=st.integers(0, 99))
def test_task_3_moe_numbering_makes_no_difference(seed):
    """The experts in another order, with their rows of the router, give the same."""
    x, *weights = moe_inputs(seed)
    order = mx.array(np.random.default_rng(seed).permutation(5))
    case = f"float32, x 3 x 4 x 7, 5 experts, top_k 2, normalize False, seed {seed}, the experts in another order"
    with noted(case):
        before, after = sparse(x, *weights, 2, False), sparse(x, *(w[order] for w in weights), 2, False)
    compare(after, to_float64(before), mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("which", ["w_gate", "w_up", "w_down"])
@pytest.mark.parametrize("change", ["turned", "an expert less"])
def test_task_3_moe_refuses_other_shapes(change, which):
    _, *weights = moe_inputs(12)
    names = ["gate", "w_gate", "w_up", "w_down"]
    w = weights[names.index(which)]
    wrong = w.swapaxes(-1, -2) if change == "turned" else w[:-1]
    weights[names.index(which)] = wrong
    case = f"gate 5 x 7, {which} {shape_words(wrong.shape)}"
    words = (which, str(wrong.shape)) if which != "w_gate" else ()
    with raises_value_error(case, *words):
        moe.SparseMoE(*weights, 2, True)


@pytest.mark.parametrize("top_k", [0, 6])
def test_task_3_moe_refuses_other_numbers(top_k):
    with raises_value_error(f"float32, x 3 x 4 x 7, 5 experts, top_k {top_k}", str(top_k)):
        mx.eval(sparse(*moe_inputs(13), top_k, True))


# Task 4, the experts' load

FIGURES = ("tokens", "share", "overload", "loss")


def figure(name):
    """One figure of the learner's load, and the formula of it."""

    def program(indices, probabilities, mask=None):
        found = load.load_statistics(indices, probabilities, mask)
        actual = getattr(found, name)
        if name == "tokens" and type(actual) is mx.array:
            if actual.dtype not in INTEGERS:
                lines = ("expected  integers", f"got       {dtype_word(actual.dtype)}")
                case = f"indices {shape_words(indices.shape)}, probabilities {shape_words(probabilities.shape)}"
                raise CheckFailed(Finding(Kind.DTYPE, "wrong dtype of tokens", lines, case, indices.size))
            return actual.astype(mx.float32)
        return actual

    def formula(indices, probabilities, mask=None, *, r=exact):
        return load64(indices, probabilities, mask, r=r)[name]

    return program, formula


def loads(indices, probabilities, mask=None, *, names=FIGURES, **options):
    for name in names:
        agrees(*figure(name), indices, probabilities, mask, dtype=mx.float32, **options)


def choices(seed, dtype=mx.float32, leading=(3, 4), experts=6, top_k=2, spread=1.0):
    """Probabilities of all experts, and the likeliest ones of each token."""
    probabilities = mx.softmax(normals(seed)(*leading, experts, spread=spread), axis=-1)
    return mx.argsort(-probabilities, axis=-1)[..., :top_k], probabilities.astype(dtype)


by_figure = pytest.mark.parametrize("name", FIGURES)


@by_figure
@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (3, 4)], ids=str)
def test_task_4_load_formula(leading, dtype, name):
    loads(*choices(1, dtype, leading), names=[name], seed=1)


@by_figure
@pytest.mark.parametrize("top_k", [1, 3, 6])
def test_task_4_load_any_number(top_k, name):
    loads(*choices(2, top_k=top_k), names=[name], seed=2)


@by_figure
def test_task_4_load_even(name):
    """Eight tokens, two of four experts each, in turn, with probabilities of a quarter: overload and loss are 1."""
    indices = mx.array([[i % 4, (i + 1) % 4] for i in range(8)])
    loads(indices, mx.full((8, 4), 0.25), names=[name], seed=3)


@by_figure
def test_task_4_load_one_expert_has_all(name):
    """Five tokens go to expert 2 of four, surely: overload and loss are 4."""
    loads(mx.full((5, 1), 2), mx.array([[0.0, 0.0, 1.0, 0.0]] * 5), names=[name], seed=4)


@by_figure
def test_task_4_load_idle_experts(name):
    """The first, the last, and one between them have nothing to do, and still have a place."""
    _, probabilities = choices(5, leading=(4,))
    loads(mx.array([[1, 2], [4, 1], [2, 1], [1, 4]]), probabilities, names=[name], seed=5)


@by_figure
@by_dtype
def test_task_4_load_padding(dtype, name):
    """What is padding is routed like all else, and is not counted."""
    mask = mx.array([[True, True, True, True], [False, True, True, True], [False, False, False, True]])
    loads(*choices(6, dtype), mask, names=[name], seed=6)


@by_figure
def test_task_4_load_a_single_token_counts(name):
    loads(*choices(7), mx.arange(12).reshape(3, 4) == 5, names=[name], seed=7)


@by_figure
def test_task_4_load_equal_sizes(name):
    """As many rows as tokens, experts and choices: a mask could be laid along another axis."""
    mask = mx.array([[True] * 4, [True, False, False, False], [False] * 4, [True, True, False, True]])
    loads(*choices(8, leading=(4, 4), experts=4, top_k=4), mask, names=[name], seed=8)


@by_figure
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_4_load_of_many_tokens(dtype, name):
    """5,000 tokens: float16 counts to 2,048, bfloat16 to 256."""
    loads(*choices(9, dtype, (5000,), 3), names=[name], seed=9)


@by_figure
def test_task_4_load_mlx(name):
    """MLX's histogram by a sum of one-hot rows, and its mean."""
    indices, probabilities = choices(10)
    tokens = mx.eye(6)[indices.flatten()].sum(axis=0)
    share = tokens / tokens.sum()
    loss = 6 * mx.inner(share, probabilities.reshape(-1, 6).mean(axis=0))
    expected = dict(zip(FIGURES, map(to_float64, (tokens, share, 6 * mx.max(share), loss)), strict=True))
    loads(indices, probabilities, names=[name], seed=10, expected=expected[name])


@pytest.mark.parametrize("padded", [False, True], ids=["all", "padded"])
@pytest.mark.parametrize("top_k", [1, 2])
def test_task_4_load_pytorch(pytorch, top_k, padded):
    """transformers' balance loss, which is k times this one."""
    indices, probabilities = choices(11, top_k=top_k)
    mask = mx.array([[False, True, True, True], [True] * 4, [False, False, True, True]]) if padded else None

    def balance(torch, probabilities, mask, top_k):
        from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

        scores = torch.log(probabilities).flatten(0, -2)
        return load_balancing_loss_func((scores,), scores.shape[-1], top_k, mask) / top_k

    expected = pytorch(balance, probabilities, mask, top_k)
    loads(indices, probabilities, mask, names=["loss"], seed=11, expected=np.asarray(expected))


def test_task_4_load_sweep():
    for n in sizes(N=20, L=1100, X=257, K=20):
        leading = n.turn((n.N, n.L), (n.L,), (n.L, 1, n.N))
        indices, probabilities = choices(n.seed, mx.float32, leading, n.X, min(n.K, n.X), n.turn(1.0, 0.01, 5.0))
        mask = n.turn(None, mx.arange(indices.shape[0]) % 3 < 2, None)
        if mask is not None:
            mask = mx.broadcast_to(mask.reshape(-1, *[1] * (len(leading) - 1)), leading)
        loads(indices, probabilities, mask, seed=n)


@property_test
@given(tokens=st.integers(1, 9), experts=st.integers(1, 8), seed=st.integers(0, 99))
def test_task_4_load_padding_is_as_if_it_were_not_there(tokens, experts, seed):
    indices, probabilities = choices(seed, leading=(tokens,), experts=experts, top_k=1)
    more, others = choices(seed + 100, leading=(tokens + 2,), experts=experts, top_k=1)
    mask = mx.arange(2 * tokens + 2) < tokens
    both = mx.concatenate([indices, more]), mx.concatenate([probabilities, others])
    for name in FIGURES:
        program, _ = figure(name)
        case = f"float32, {tokens} tokens and {tokens + 2} of padding, {experts} experts, {name}, seed {seed}"
        with noted(case):
            actual, alone = program(*both, mask), to_float64(program(indices, probabilities))
        compare(actual, alone, mx.float32, 1e-4, case, indices.size)


def test_task_4_load_refuses_padding_alone():
    indices, probabilities = choices(12)
    with raises_value_error("float32, indices 3 x 4 x 2, probabilities 3 x 4 x 6, a mask of False"):
        load.load_statistics(indices, probabilities, mx.zeros((3, 4), mx.bool_))
