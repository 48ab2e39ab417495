"""Task 4.5.3, the sparse block, checked against its formula in float64, mlx-lm's and transformers' Qwen3-MoE."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day5 import moe64
from tests.week4.routing import by_sum, products, transformers_config

from tiny_llm.experts import moe
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


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
    """A decode step, of one sequence and of five."""
    agrees(sparse, moe64, *moe_inputs(3, leading=leading), 2, normalize, seed=3)


@by_sum
def test_task_3_moe_equal_sizes(normalize):
    agrees(sparse, moe64, *moe_inputs(4, leading=(4,), size=4, width=4, experts=4), 2, normalize, seed=4)


@by_sum
def test_task_3_moe_a_single_expert(normalize):
    """One expert, of weight 1, is an MLP."""
    agrees(sparse, moe64, *moe_inputs(5, experts=1), 1, normalize, seed=5)


@by_sum
def test_task_3_moe_identical_experts(normalize):
    """All experts are identical, so only the sum of the weights matters."""
    x, gate, *weights = moe_inputs(6)
    agrees(sparse, moe64, x, gate, *(mx.broadcast_to(w[:1], w.shape) for w in weights), 2, normalize, seed=6)


@by_sum
def test_task_3_moe_all_choose_the_same(normalize):
    """The router prefers experts 1 and 3 for every token; the others get no token, and have NaN for weights."""
    x, gate, *weights = moe_inputs(7)
    x = mx.abs(x)
    gate = mx.abs(gate) * mx.array([[-1.0], [1.0], [-1.0], [2.0], [-1.0]])
    agrees(sparse, moe64, x, gate, *weights, 2, normalize, seed=7)
    idle = mx.array([True, False, True, False, True])[:, None, None]
    case = f"float32, x 3 x 4 x 7, 5 experts, NaN in those that get no token, normalize {normalize}, seed 7"
    with noted(case):
        actual = sparse(x, gate, *(mx.where(idle, mx.nan, w) for w in weights), 2, normalize)
    expected = moe64(*map(to_float64, (x, gate, *weights)), 2, normalize)
    compare(actual, expected, mx.float32, 1e-4, case, x.size)


@by_sum
def test_task_3_moe_mlx(normalize):
    """The same, composed of MLX's own operators."""
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
    """mlx-lm's block of Qwen3-MoE on the same weights; its result is recorded with PyTorch's answers."""
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
    """256 tokens with two of 4 experts each."""
    x, gate, *weights = moe_inputs(11, leading=(1, 256), size=64, width=64, experts=4)
    agrees(sparse, moe64, *moe_inputs(11), 2, True, seed=11)
    case = "float32, x 1 x 256 x 64, 4 experts of width 64, top_k 2, seed 11"
    holds_less(
        lambda: sparse(x, gate, *weights, 2, True), 512 * 64 * 64, "a quarter of a matrix for each row", case=case
    )


def test_task_3_moe_multiplies_by_no_idle_expert():
    """One token and 12 experts: three products for each of its two, and one for the router."""
    x, *weights = inputs = moe_inputs(14, leading=(1, 1), experts=12)
    agrees(sparse, moe64, *inputs, 2, True, seed=14)
    case = "float32, x 1 x 1 x 7, 12 experts, top_k 2, seed 14"
    with noted(case):
        count = products(moe.SparseMoE(*weights, 2, True)(x))
    if count > 3 * 2 + 1:
        fail(Kind.VALUES, f"your code makes {count} matrix products for a token that has 2 experts", case, size=x.size)


def test_task_3_moe_sweep():
    for n in sweep(N=20, L=257, E=131, I=131, X=131, K=9):
        x, *weights = moe_inputs(n.seed, n.dtype, (n.N, n.L), n.E, n.I, n.X)
        x = (x * min(n.spread, 30.0)).astype(n.dtype)
        agrees(sparse, moe64, x, *weights, min(n.K, n.X), n.turn(True, False), seed=n)


@property_test
@given(length=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_3_moe_a_token_alone(length, seed):
    """A token's output does not depend on the other tokens."""
    x, *weights = moe_inputs(seed, leading=(2, length))
    case = f"float32, x 2 x {length} x 7, 5 experts, top_k 2, normalize True, seed {seed}, tokens one by one"
    with noted(case):
        together = sparse(x, *weights, 2, True)
        alone = [[to_float64(sparse(x[i, j : j + 1], *weights, 2, True))[0] for j in range(length)] for i in range(2)]
    compare(together, np.array(alone), mx.float32, 1e-4, case, x.size)


@property_test
@given(seed=st.integers(0, 99))
def test_task_3_moe_permuted_experts(seed):
    """Permuting the experts, with their rows of the router, changes nothing."""
    x, *weights = moe_inputs(seed)
    order = mx.array(np.random.default_rng(seed).permutation(5))
    case = f"float32, x 3 x 4 x 7, 5 experts, top_k 2, normalize False, seed {seed}, the experts in another order"
    with noted(case):
        before, after = sparse(x, *weights, 2, False), sparse(x, *(w[order] for w in weights), 2, False)
    compare(after, to_float64(before), mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("which", ["w_gate", "w_up", "w_down"])
@pytest.mark.parametrize("change", ["transposed", "an expert less", "a column less"])
def test_task_3_moe_refuses_other_shapes(change, which):
    _, *weights = moe_inputs(12)
    names = ["gate", "w_gate", "w_up", "w_down"]
    w = weights[names.index(which)]
    wrong = {"transposed": w.swapaxes(-1, -2), "an expert less": w[:-1], "a column less": w[..., :-1]}[change]
    weights[names.index(which)] = wrong
    case = f"gate 5 x 7, {which} {shape_words(wrong.shape)}"
    words = (which, str(wrong.shape), str(w.shape)) if which != "w_gate" else ()
    with raises_value_error(case, *words):
        moe.SparseMoE(*weights, 2, True)


@pytest.mark.parametrize("shape", [(5, 6), (4, 7), (6, 7)], ids=str)
def test_task_3_moe_refuses_another_router(shape):
    """Of another width, or for another number of experts; all of the experts' matrices fit one another."""
    _, _, *weights = moe_inputs(12)
    with raises_value_error(f"gate {shape_words(shape)}, w_gate 5 x 6 x 7, w_up 5 x 6 x 7, w_down 5 x 7 x 6"):
        moe.SparseMoE(mx.zeros(shape), *weights, 2, True)


@pytest.mark.parametrize("top_k", [0, 6])
def test_task_3_moe_refuses_other_numbers(top_k):
    with raises_value_error(f"float32, x 3 x 4 x 7, 5 experts, top_k {top_k}", str(top_k)):
        mx.eval(sparse(*moe_inputs(13), top_k, True))
