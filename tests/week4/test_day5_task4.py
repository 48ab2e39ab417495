"""Task 4.5.4, the experts' load, checked against its formula in float64, MLX's operators and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day5 import load64
from tests.week4.routing import INTEGERS

from tiny_llm.experts import load
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes

FIGURES = ("tokens", "share", "imbalance", "auxiliary_loss")


def figure(indices, probabilities, mask=None, *, field):
    """Return one field of the learner's load."""
    actual = getattr(load.load_statistics(indices, probabilities, mask), field)
    if field == "tokens" and type(actual) is mx.array:
        if actual.dtype not in INTEGERS:
            lines = ("expected  integers", f"got       {dtype_word(actual.dtype)}")
            case = f"indices {shape_words(indices.shape)}, probabilities {shape_words(probabilities.shape)}"
            fail(Kind.DTYPE, "wrong dtype of tokens", case, *lines, size=indices.size)
        return actual.astype(mx.float32)
    return actual


def figure64(indices, probabilities, mask=None, *, field, r=exact):
    return load64(indices, probabilities, mask, r=r)[field]


def loads(indices, probabilities, mask=None, *, names=FIGURES, **options):
    for name in names:  # the case says which field differs
        agrees(figure, figure64, indices, probabilities, mask, field=name, dtype=mx.float32, **options)


def choices(seed, dtype=mx.float32, leading=(3, 4), experts=6, top_k=2, spread=1.0):
    """Return the probabilities of all experts, and each token's likeliest ones."""
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
    """Eight tokens on two of four experts each, evenly, all probabilities 1/4: imbalance and auxiliary_loss are 1."""
    indices = mx.array([[i % 4, (i + 1) % 4] for i in range(8)])
    loads(indices, mx.full((8, 4), 0.25), names=[name], seed=3)


@by_figure
def test_task_4_load_one_expert_has_all(name):
    """Five tokens go to expert 2 of four, surely: imbalance and auxiliary_loss are 4."""
    loads(mx.full((5, 1), 2), mx.array([[0.0, 0.0, 1.0, 0.0]] * 5), names=[name], seed=4)


@by_figure
def test_task_4_load_idle_experts(name):
    """The first, the last, and one between them get no token, but are still counted."""
    _, probabilities = choices(5, leading=(4,))
    loads(mx.array([[1, 2], [4, 1], [2, 1], [1, 4]]), probabilities, names=[name], seed=5)


@by_figure
@by_dtype
def test_task_4_load_padding(dtype, name):
    """Padding is routed like everything else, but not counted."""
    mask = mx.array([[True, True, True, True], [False, True, True, True], [False, False, False, True]])
    loads(*choices(6, dtype), mask, names=[name], seed=6)


@by_figure
def test_task_4_load_a_single_token_counts(name):
    loads(*choices(7), mx.arange(12).reshape(3, 4) == 5, names=[name], seed=7)


@by_figure
def test_task_4_load_equal_sizes(name):
    """As many sequences as tokens, experts and choices: a mask could be applied along another axis."""
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
    """transformers' auxiliary loss, which is k times this one."""
    indices, probabilities = choices(11, top_k=top_k)
    mask = mx.array([[False, True, True, True], [True] * 4, [False, False, True, True]]) if padded else None

    def balance(torch, probabilities, mask, top_k):
        from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

        scores = torch.log(probabilities).flatten(0, -2)
        return load_balancing_loss_func((scores,), scores.shape[-1], top_k, mask) / top_k

    expected = pytorch(balance, probabilities, mask, top_k)
    loads(indices, probabilities, mask, names=["auxiliary_loss"], seed=11, expected=np.asarray(expected))


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
def test_task_4_load_ignores_padding(tokens, experts, seed):
    indices, probabilities = choices(seed, leading=(tokens,), experts=experts, top_k=1)
    more, others = choices(seed + 100, leading=(tokens + 2,), experts=experts, top_k=1)
    mask = mx.arange(2 * tokens + 2) < tokens
    both = mx.concatenate([indices, more]), mx.concatenate([probabilities, others])
    for name in FIGURES:
        case = f"float32, {tokens} tokens and {tokens + 2} of padding, {experts} experts, {name}, seed {seed}"
        with noted(case):
            actual = figure(*both, mask, field=name)
            alone = to_float64(figure(indices, probabilities, field=name))
        compare(actual, alone, mx.float32, 1e-4, case, indices.size)


def test_task_4_load_refuses_padding_alone():
    indices, probabilities = choices(12)
    with raises_value_error("float32, indices 3 x 4 x 2, probabilities 3 x 4 x 6, a mask of False"):
        load.load_statistics(indices, probabilities, mx.zeros((3, 4), mx.bool_))


def test_task_4_load_refuses_no_tokens_at_all():
    with raises_value_error("float32, indices 0 x 2, probabilities 0 x 6, no mask"):
        load.load_statistics(mx.zeros((0, 2), mx.int32), mx.zeros((0, 6)))
