"""Week 1, day 3, task 3: Qwen3 attention."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import qwen_attention64

from tiny_llm import qwen3
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, NAMED_MASKS, broadcasting, mask_of, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def up_to(max_seq_len):
    """Return the learner's layer for `max_seq_len` tokens, with the parameters of its formula."""

    @built
    def qwen_attention(
        x, num_heads, num_kv_heads, wq, wk, wv, wo, q_norm=None, k_norm=None, bq=None, bk=None, bv=None,
        theta=1000000, eps=1e-6, mask=None,
    ):  # fmt: skip
        head_dim = wq.shape[0] // num_heads
        layer = qwen3.Qwen3MultiHeadAttention(
            x.shape[-1], num_heads, num_kv_heads, head_dim, wq, wk, wv, wo, q_norm=q_norm, k_norm=k_norm,
            bq=bq, bk=bk, bv=bv, max_seq_len=max_seq_len, theta=theta, rms_norm_eps=eps,
        )  # fmt: skip
        return lambda x, mask: layer(x) if mask is None else layer(x, mask)

    return qwen_attention


qwen_attention = up_to(16)


def qwen_inputs(seed, dtype=mx.float32, batch=4, length=5, hidden=7, heads=6, kv_heads=3, dims=8):
    """N, L, E, H, H_kv, D and the group's size 2 all differ, and E is not H * D."""
    draw = normals(seed, dtype)
    q, kv = heads * dims, kv_heads * dims
    x, wo = draw(batch, length, hidden), draw(hidden, q, spread=q**-0.5)
    wq, wk, wv = (draw(rows, hidden, spread=hidden**-0.5) for rows in (q, kv, kv))
    return x, heads, kv_heads, wq, wk, wv, wo


def norms(seed, dtype=mx.float32, dims=8):
    """Return Qwen3's norm weights, not ones: ones would hide swapped weights and a norm after RoPE."""
    draw = normals(seed, dtype)
    return {"q_norm": 1 + draw(dims, spread=0.5), "k_norm": 1 + draw(dims, spread=0.5)}


def biases(seed, dtype=mx.float32, heads=6, kv_heads=3, dims=8):
    """Return Qwen2.5's biases."""
    draw = normals(seed, dtype)
    return {"bq": draw(heads * dims), "bk": draw(kv_heads * dims), "bv": draw(kv_heads * dims)}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [1, 4])
def test_task_3_qwen3_formula(batch, dtype):
    extra = norms(10, dtype)
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(1, dtype, batch), **extra, theta=500, mask="causal", seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_3_qwen3_biases(dtype):
    """Qwen2.5: biases, and no norms."""
    extra = biases(20, dtype)
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(2, dtype), **extra, theta=500, mask="causal", seed=2)


@pytest.mark.parametrize("names", ["q_norm", "k_norm", "bq", "bk", "bv", "q_norm k_norm bq bk bv"])
def test_task_3_qwen3_norms_and_biases_apart(names):
    """Each may be None while others are not."""
    every = norms(120) | biases(121)
    extra = {name: every[name] for name in names.split()}
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(12), **extra, theta=500, mask="causal", seed=12)


@pytest.mark.parametrize("theta", [10.0, 10000.0, 1000000.0])
def test_task_3_qwen3_theta(theta):
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(3), **norms(30), theta=theta, mask="causal", seed=3)


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_task_3_qwen3_eps(eps):
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(4), **norms(40), theta=500, eps=eps, mask="causal", seed=4)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (6, 2), (3, 1)])
def test_task_3_qwen3_any_number_of_heads(heads, kv_heads):
    inputs = qwen_inputs(5, heads=heads, kv_heads=kv_heads)
    agrees(qwen_attention, qwen_attention64, *inputs, **norms(50), theta=500, mask="causal", seed=5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_3_qwen3_without_mask(dtype):
    """Every token sees every token."""
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(6, dtype), **norms(60, dtype), theta=500, seed=6)


def test_task_3_qwen3_finite_mask():
    for shape in broadcasting(4, 6, 5, 5):
        mask = normals(70)(*shape, spread=2.0)
        agrees(qwen_attention, qwen_attention64, *qwen_inputs(7), **norms(71), theta=500, mask=mask, seed=7)


def test_task_3_qwen3_hidden_size_that_heads_divide():
    """E = H * D / 2: D is head_dim, not E / H."""
    inputs = qwen_inputs(8, hidden=24)
    agrees(qwen_attention, qwen_attention64, *inputs, **norms(80), theta=500, mask="causal", seed=8)


def test_task_3_qwen3_hidden_size_that_heads_do_not_divide():
    """E // H is D, but H * D is not E."""
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(21, hidden=25, dims=4), **norms(210, dims=4), seed=21)


def test_task_3_qwen3_defaults():
    """max_seq_len, theta and rms_norm_eps have defaults."""

    @built
    def by_default(x, heads, kv_heads, *weights, **extra):
        layer = qwen3.Qwen3MultiHeadAttention(x.shape[-1], heads, kv_heads, 8, *weights, **extra)
        return lambda x: layer(x)

    agrees(by_default, qwen_attention64, *qwen_inputs(9), **norms(90), seed=9)


def test_task_3_qwen3_mlx():
    """The same, composed of MLX operators."""
    inputs, extra = qwen_inputs(10), norms(100)
    x, heads, kv_heads, wq, wk, wv, wo = inputs

    def split(w, number):
        return mx.unflatten(x @ w.T, -1, (number, -1)).swapaxes(1, 2)

    def apply_rope(y):
        return mx.fast.rope(y, 8, traditional=False, base=500, scale=1.0, offset=0)

    query = apply_rope(mx.fast.rms_norm(split(wq, heads), extra["q_norm"], 1e-6))
    key = apply_rope(mx.fast.rms_norm(split(wk, kv_heads), extra["k_norm"], 1e-6))
    attended = mx.fast.scaled_dot_product_attention(query, key, split(wv, kv_heads), scale=8**-0.5, mask="causal")
    expected = to_float64(attended.swapaxes(1, 2).flatten(2) @ wo.T)
    agrees(qwen_attention, qwen_attention64, *inputs, **extra, theta=500, mask="causal", seed=10, expected=expected)


@pytest.mark.parametrize("model", ["qwen3", "qwen2.5"])
def test_task_3_qwen3_pytorch(pytorch, model):
    """The same, composed of PyTorch operators."""
    inputs, extra = qwen_inputs(11), norms(110) if model == "qwen3" else biases(111)

    def composed(torch, x, heads, kv_heads, wq, wk, wv, wo, q_norm=None, k_norm=None, bq=None, bk=None, bv=None):
        functional = torch.nn.functional

        def split(w, bias, number):
            return functional.linear(x, w, bias).unflatten(-1, (number, -1)).transpose(1, 2)

        def apply_rope(y):
            length, dims = y.shape[-2:]
            angles = torch.outer(torch.arange(length), 500.0 ** (-torch.arange(0, dims, 2) / dims)).repeat(1, 2)
            left, right = y.chunk(2, dim=-1)
            return y * angles.cos() + torch.cat([-right, left], dim=-1) * angles.sin()

        query, key, value = split(wq, bq, heads), split(wk, bk, kv_heads), split(wv, bv, kv_heads)
        if q_norm is not None:
            query = functional.rms_norm(query, q_norm.shape, q_norm, 1e-6)
            key = functional.rms_norm(key, k_norm.shape, k_norm, 1e-6)
        attended = functional.scaled_dot_product_attention(
            apply_rope(query), apply_rope(key), value, is_causal=True, enable_gqa=True
        )
        return functional.linear(attended.transpose(1, 2).flatten(2), wo)

    expected = pytorch(composed, *inputs, **extra)
    agrees(qwen_attention, qwen_attention64, *inputs, **extra, theta=500, mask="causal", seed=11, expected=expected)


def test_task_3_qwen3_called_with_other_sizes_and_masks():
    """One object, as in generation: each call has its own rows, tokens and mask."""
    (x, heads, kv_heads, *weights), extra = qwen_inputs(13, length=9), norms(130)
    layer = qwen3.Qwen3MultiHeadAttention(7, heads, kv_heads, 8, *weights, **extra, max_seq_len=9, theta=500)

    def called_before(x, *_, mask=None, **__):
        return layer(x) if mask is None else layer(x, mask)

    bias = normals(131)(6, 3, 3)
    for rows, length, mask in [(1, 4, "causal"), (1, 5, "causal"), (4, 3, None), (4, 3, bias), (2, 9, "causal")]:
        part = x[:rows, :length]
        agrees(
            called_before, qwen_attention64, part, heads, kv_heads, *weights, **extra, theta=500, mask=mask, seed=13
        )  # fmt: skip


def test_task_3_qwen3_sweep():
    for n in sweep(N=65, L=257, E=131, K=20, G=5, P=64):
        heads, dims = n.K * n.G, 2 * n.P
        for hidden in (n.E, heads * dims)[: 1 + (heads * dims <= 16)]:
            sizes = {"batch": n.N, "length": n.L, "hidden": hidden, "heads": heads, "kv_heads": n.K, "dims": dims}
            x, *inputs = qwen_inputs(n.seed, n.dtype, **sizes)
            extra = n.turn(norms(n.seed, n.dtype, dims), biases(n.seed, n.dtype, heads, n.K, dims))
            shape = *n.turn((), (n.N, 1), (heads,), (n.N, heads)), n.L, n.L
            mask = mask_of(n.turn(*NAMED_MASKS), n.seed, n.turn(*DTYPES), *shape)
            extra |= {"theta": n.turn(500, 1000000.0, 10000), "mask": mask}
            agrees(up_to(n.L), qwen_attention64, x * n.spread, *inputs, **extra, seed=n)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_3_qwen3_causal_keeps_the_past(length, changed, seed):
    """Changing the tokens from some position on does not change any earlier output."""
    changed = min(changed, length - 1)
    x, *weights = qwen_inputs(seed, batch=1, length=length, heads=4, kv_heads=2, dims=6)
    extra = {**norms(seed + 100, dims=6), "theta": 500, "mask": "causal"}
    agrees(qwen_attention, qwen_attention64, x, *weights, **extra, seed=seed)
    noise = mx.where(mx.arange(length)[:, None] < changed, 0.0, 5.0)
    first = qwen_attention(x, *weights, **extra)
    second = qwen_attention(x + noise, *weights, **extra)
    case = f"float32, x 1 x {length} x 7, num_heads 4, num_kv_heads 2, causal, x changed from {changed} on, seed {seed}"
    compare(second[:, :changed], to_float64(first)[:, :changed], mx.float32, 1e-5, case, x.size)


@property_test
@given(longer=st.sampled_from([0.25, 4.0, 32.0]), seed=st.integers(0, 99))
def test_task_3_qwen3_norm_makes_lengths_equal(longer, seed):
    """After the norms, queries and keys of any length give the same scores."""
    x, heads, kv_heads, wq, wk, wv, wo = qwen_inputs(seed, batch=1, heads=4, kv_heads=2)
    extra = {**norms(seed + 100), "theta": 500, "eps": 1e-9}
    agrees(qwen_attention, qwen_attention64, x, heads, kv_heads, wq, wk, wv, wo, **extra, seed=seed)
    first = qwen_attention(x, heads, kv_heads, wq, wk, wv, wo, **extra)
    second = qwen_attention(x, heads, kv_heads, wq * longer, wk * longer, wv, wo, **extra)
    case = f"float32, x 1 x 5 x 7, num_heads 4, num_kv_heads 2, against wq and wk times {longer:g}, seed {seed}"
    compare(second, to_float64(first), mx.float32, 1e-5, case, x.size)


def test_task_3_qwen3_refuses_more_tokens_than_max_seq_len():
    """These tests use max_seq_len 16."""
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(20, length=16), seed=20)
    with raises_value_error("float32, x 4 x 17 x 7, max_seq_len 16"):
        mx.eval(qwen_attention(*qwen_inputs(20, length=17)))


def test_task_3_qwen3_refuses_uneven_groups():
    wq, wk, wo = mx.zeros((20, 7)), mx.zeros((8, 7)), mx.zeros((7, 20))
    with raises_value_error("hidden_size 7, num_heads 5, num_kv_heads 2, head_dim 4"):
        qwen3.Qwen3MultiHeadAttention(7, 5, 2, 4, wq, wk, wk, wo)
