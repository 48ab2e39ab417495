"""Task 5.3.5, the gradients of attention: the formula, finite differences, mx.vjp and PyTorch's autograd."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1 import formulas
from tests.week1.reference_model import QWEN3, random_model
from tests.week5.formulas_day3 import attention64, slopes64

from tiny_llm import attention as week1
from tiny_llm import qwen3
from tiny_llm.backward import attention
from tiny_llm.backward.block import block_vjp
from tiny_llm.config import ModelConfig
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, forbidding, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sweep

NAMES = ("dquery", "dkey", "dvalue")
by_gradient = pytest.mark.parametrize("name", NAMES)


def gradients(*args):
    found = attention.attention_vjp(*args)
    if not isinstance(found, tuple | list) or len(found) != 3:
        fail(Kind.TYPE, f"returned {type_words(found)}, expected dquery, dkey and dvalue", "")
    return dict(zip(NAMES, found, strict=True))


def gradient(name):
    """One of the learner's three gradients, and its formula; visible is a boolean mask, as ones and zeros."""

    def program(query, key, value, dy, scale=None, mask=None, visible=None):
        return gradients(query, key, value, dy, scale, mask if visible is None else visible > 0)[name]

    def formula(query, key, value, dy, scale=None, mask=None, visible=None, *, r=exact):
        return r(attention64(query, key, value, dy, scale, mask, visible, r=r)[name])

    return program, formula


def inputs(seed, dtype=mx.float32, leading=(2,), H=6, H_kv=3, L=4, S=5, D=7):
    """All sizes differ."""
    draw = normals(seed, dtype)
    query, key, value = draw(*leading, H, L, D), draw(*leading, H_kv, S, D), draw(*leading, H_kv, S, D)
    return query, key, value, draw(*leading, H, L, D)


def check(*args, seed, names=NAMES, **options):
    for name in names:
        agrees(*gradient(name), *args, seed=seed, **options)


@by_gradient
@by_dtype
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=str)
def test_task_5_attention_formula(leading, dtype, name):
    check(*inputs(1, dtype, leading), seed=1, names=[name])


@by_gradient
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_task_5_attention_sharing(kv_heads, name):
    """Multi-query, grouped-query and multi-head attention."""
    check(*inputs(2, H_kv=kv_heads), seed=2, names=[name])


@by_gradient
def test_task_5_attention_equal_sizes(name):
    check(*inputs(3, leading=(4,), H=4, H_kv=2, L=4, S=4, D=4), seed=3, names=[name])


@by_gradient
@pytest.mark.parametrize("scale", [0.0, 0.3, -2.0])
def test_task_5_attention_scale(scale, name):
    check(*inputs(4), scale, seed=4, names=[name])


@by_gradient
def test_task_5_attention_two_keys(name):
    """Weights of about 0.7 and 0.3, as in the first hint and in the chapter."""
    query, key = mx.array([[[1.0]]]), mx.log(mx.array([[[0.7], [0.3]]]))
    check(query, key, mx.array([[[2.0], [1.0]]]), mx.array([[[1.0]]]), 1.0, seed=0, names=[name])


@by_gradient
@pytest.mark.parametrize("length", [5, 3])
def test_task_5_attention_causal(length, name):
    """As many queries as keys, and fewer: the last query sees the last key."""
    check(*inputs(5, L=length), None, "causal", seed=5, names=[name])


@by_gradient
@pytest.mark.parametrize("shape", [(4, 5), (6, 4, 5), (2, 1, 4, 5), (2, 6, 1, 5)], ids=str)
@pytest.mark.parametrize("sort", ["bias", "forbidding"])
def test_task_5_attention_masks(sort, shape, name):
    check(*inputs(6), None, mask_of(sort, 60, mx.float32, *shape), seed=6, names=[name])


@by_gradient
@pytest.mark.parametrize("shape", [(4, 5), (6, 4, 5), (2, 1, 4, 5)], ids=str)
def test_task_5_attention_boolean_masks(shape, name):
    visible = (forbidding(61, mx.zeros(shape)) == 0).astype(mx.float32)
    check(*inputs(7), None, None, visible, seed=7, names=[name])


@by_gradient
@pytest.mark.parametrize("boolean", [True, False], ids=["bool", "-inf"])
def test_task_5_attention_fully_masked_row(boolean, name):
    """The second query sees no key: it gets a gradient of zero, and contributes none."""
    visible = mx.array([[1.0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]])
    bias = mx.where(visible > 0, 0.0, -mx.inf)
    check(*inputs(8), None, *((None, visible) if boolean else (bias, None)), seed=8, names=[name])


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@by_gradient
def test_task_5_attention_in_float32(dtype, name):
    """Large scores and values, whose products overflow float16, and a mask in float32."""
    query, key, value, dy = inputs(9, dtype, D=64)
    mask = mask_of("bias", 90, mx.float32, 4, 5)
    check((query * 8).astype(dtype), key, (value * 300).astype(dtype), dy, 0.1, mask, seed=9, names=[name])


@pytest.mark.parametrize("which", range(3))
def test_task_5_attention_finite_differences(which):
    query, key, value, dy = inputs(10, leading=(), H=4, H_kv=2, L=2, S=3, D=3)
    arrays = [to_float64(a) for a in (query, key, value)]
    expected = slopes64(lambda q, k, v: formulas.grouped64(q, k, v, mask="causal"), arrays, which, to_float64(dy))
    check(query, key, value, dy, None, "causal", seed=10, names=[NAMES[which]], expected=expected)


@pytest.mark.parametrize("own", [True, False], ids=["week 1's attention", "mx.fast's"])
@pytest.mark.parametrize("which", range(3))
def test_task_5_attention_mlx(which, own):
    """mx.vjp of week 1's grouped-query attention, and of MLX's operator."""
    query, key, value, dy = inputs(11)

    def forward(query, key, value):
        if own:
            return week1.scaled_dot_product_attention_grouped(query, key, value, mask="causal")
        return mx.fast.scaled_dot_product_attention(query, key, value, scale=7**-0.5, mask="causal")

    _, found = mx.vjp(forward, [query, key, value], [dy])
    expected = to_float64(found[which])
    check(query, key, value, dy, None, "causal", seed=11, names=[NAMES[which]], expected=expected)


@pytest.mark.parametrize("which", range(3))
def test_task_5_attention_pytorch(pytorch, which):
    query, key, value, dy = inputs(12)
    mask = mask_of("forbidding", 120, mx.float32, 4, 5)

    def gradient(torch, query, key, value, dy, mask, which):
        arrays = [a.clone().requires_grad_(True) for a in (query, key, value)]
        attend = torch.nn.functional.scaled_dot_product_attention
        attend(*arrays, attn_mask=mask, enable_gqa=True).backward(dy)
        return arrays[which].grad

    expected = pytorch(gradient, query, key, value, dy, mask, which)
    check(query, key, value, dy, None, mask, seed=12, names=[NAMES[which]], expected=expected)


def test_task_5_attention_whole_block():
    """Given code puts your VJPs together to the gradients of a transformer block: those of mx.value_and_grad."""
    model = random_model({**QWEN3, "num_hidden_layers": 1}, 13)
    config, weights = ModelConfig.from_dict(model.config), model.layer(0)
    draw = normals(13)
    x, dy = draw(2, 5, 12), draw(2, 5, 12)

    def loss(weights, x):
        return mx.sum(qwen3.Qwen3TransformerBlock(config, weights)(x, "causal") * dy)

    case = f"float32, x 2 x 5 x 12, a layer of {model}, seed 13"
    with noted(case):
        dx, found = block_vjp(config, weights, x, dy)
        _, (expected, of_x) = mx.value_and_grad(loss, argnums=(0, 1))(weights, x)
    for name, wanted in (expected | {"x": of_x}).items():
        wide = to_float64(wanted)
        spread = 1e-4 * float(np.abs(wide).max())
        compare((found | {"x": dx})[name], wide, mx.float32, spread, f"{case}: the gradient of {name}", x.size)


def test_task_5_attention_sweep():
    for n in sweep(N=3, K=3, G=4, L=131, S=257, D=130):
        query, key, value, dy = inputs(n.seed, n.dtype, (n.N,), n.K * n.G, n.K, n.L, n.S, n.D)
        mask = n.turn(None, "causal", mask_of("bias", n.seed, mx.float32, n.L, n.S), None)
        mask = None if isinstance(mask, str) and n.L > n.S else mask
        query = (query * min(n.spread, 30.0)).astype(n.dtype)
        check(query, key, value, dy, n.turn(None, 0.1), mask, seed=n, names=n.each(*NAMES))


@property_test
@given(length=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_5_attention_gradient_stays_in_the_past(length, seed):
    """With a causal mask, the gradient of the first query reaches the first key and value alone."""
    query, key, value, dy = inputs(seed, leading=(), L=length, S=length)
    dy = mx.where(mx.arange(length)[:, None] == 0, dy, 0.0)
    case = f'float32, query 6 x {length} x 7, key 3 x {length} x 7, mask "causal", seed {seed}, dy of the first query'
    with noted(case):
        found = gradients(query, key, value, dy, None, "causal")
    for name in NAMES:
        expected = to_float64(found[name])
        expected[:, 1:] = 0
        compare(found[name], expected, mx.float32, 0.0, f"{case}: {name}", query.size)


@property_test
@given(seed=st.integers(0, 99))
def test_task_5_attention_shifted_scores(seed):
    """Adding one number to all keys' scores changes no weight: the gradients of the keys sum to zero."""
    query, key, value, dy = inputs(seed, leading=())
    case = f"float32, query 6 x 4 x 7, key 3 x 5 x 7, seed {seed}: the sum of dkey over the keys"
    with noted(case):
        total = mx.sum(gradients(query, key, value, dy)["dkey"], axis=-2)
    compare(total, np.zeros((3, 7)), mx.float32, 1e-4, case, query.size)


@pytest.mark.parametrize("kv_heads", [4, 5, 12])
def test_task_5_attention_refuses_uneven_heads(kv_heads):
    with raises_value_error(f"query 2 x 6 x 4 x 7, key 2 x {kv_heads} x 5 x 7", "6", str(kv_heads)):
        mx.eval(attention.attention_vjp(*inputs(14, H_kv=kv_heads)))


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (6, 4, 7), (2, 3, 4, 7), (2, 6, 4, 1)], ids=str)
def test_task_5_attention_refuses_other_shapes(shape):
    query, key, value, _ = inputs(15)
    with raises_value_error(f"query 2 x 6 x 4 x 7, dy {shape}", str(shape), "(2, 6, 4, 7)"):
        mx.eval(attention.attention_vjp(query, key, value, mx.ones(shape)))
