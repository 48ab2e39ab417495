"""Task 4.2.5, the whole block, checked against its formula, MLX's operators and PyTorch."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day2 import block64, next_stays64, permutation64
from tests.week4.fused import by_layout, looks, one_of

from tiny_llm.fused_qkv import attention
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def block(
    x, num_heads, num_kv_heads, wqkv, wo, bqkv=None, layout="blocks", mask=None, may_look=None, rate=0.0,
    training=False, chance=0, part="output", bo=None,
):  # fmt: skip
    layer = attention.FusedMultiHeadAttention(num_heads, num_kv_heads, wqkv, wo, bqkv, layout, rate, bo)

    def call(x, mask, may_look):
        found = layer(x, mask if may_look is None else may_look, training, mx.random.key(chance))
        return one_of(found, part, "output", "weights")

    return call


def block_inputs(seed, dtype=mx.float32, batch=3, length=5, hidden=7, heads=6, kv_heads=2, dims=4):
    """N, L, E, H, H_kv, D and the group's size all differ, but for N; E is not H * D."""
    draw = normals(seed, dtype)
    x, wo = draw(batch, length, hidden), draw(hidden, heads * dims, spread=(heads * dims) ** -0.5)
    wqkv = draw((heads + 2 * kv_heads) * dims, hidden, spread=hidden**-0.5)
    return x, heads, kv_heads, wqkv, wo


def blocks_agree(*inputs, seed, expected=None, **named):
    for part in ("weights", "output"):
        by = (expected or {}).get(part)
        agrees(block, block64, *inputs, **named, part=part, seed=seed, expected=by)


@by_layout
@by_dtype
def test_task_5_block_formula(dtype, layout):
    blocks_agree(*block_inputs(1, dtype), layout=layout, seed=1)


@by_layout
def test_task_5_block_bias(layout):
    inputs = block_inputs(2)
    blocks_agree(*inputs, normals(20)(40), layout, mask="causal", seed=2)
    blocks_agree(*inputs, layout=layout, bo=normals(21)(7), seed=2)


@by_layout
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (4, 4), (4, 1)])
def test_task_5_block_any_number_of_heads(heads, kv_heads, layout):
    blocks_agree(*block_inputs(3, heads=heads, kv_heads=kv_heads), layout=layout, seed=3)


@by_layout
def test_task_5_block_masks(layout):
    inputs = block_inputs(4)
    blocks_agree(*inputs, layout=layout, mask=normals(40)(3, 6, 5, 5), seed=4)
    blocks_agree(*inputs, layout=layout, may_look=looks(41, 3, 1, 1, 5), seed=4)


@by_layout
def test_task_5_block_dropout(layout):
    for training in (True, False):
        blocks_agree(*block_inputs(5), layout=layout, rate=0.4, training=training, chance=50, seed=5)


def test_task_5_block_without_a_random_key():
    """Without a key, MLX's global random state: seeded by `mx.random.seed`, and different in each call."""
    x, heads, kv_heads, wqkv, wo = block_inputs(10, batch=40, length=1, heads=1, kv_heads=1)
    layer = attention.FusedMultiHeadAttention(heads, kv_heads, wqkv, wo, rate=0.4)
    # a single weight of 1 in each sequence: it is dropped with all of the output, or kept
    whole = block64(to_float64(x), 1, 1, to_float64(wqkv), to_float64(wo))
    mx.random.seed(100)
    expected = [whole * next_stays64(0.4, (40, 1, 1)) / 0.6 for _ in range(2)]
    mx.random.seed(100)
    case = "float32, x 40 x 1 x 7, H 1, H_kv 1, rate 0.4, training, two calls without a key after mx.random.seed(100)"
    for each in expected:
        with noted(case):
            output, _ = layer(x, training=True)
        compare(output, each, mx.float32, 1e-5, f"{case}, seed 10", x.size, indirect=False)


@by_layout
def test_task_5_block_as_wide_as_its_heads(layout):
    """E = H * D, where a wrong order has the right shape."""
    blocks_agree(*block_inputs(6, hidden=12, heads=3, kv_heads=3), layout=layout, mask="causal", seed=6)


@pytest.mark.parametrize("masked", [False, True])
def test_task_5_block_pytorch(pytorch, masked):
    """`MultiheadAttention` stores the fused weight as blocks; in its boolean masks True hides."""
    x, heads, _, wqkv, wo = block_inputs(7, hidden=12, heads=3, kv_heads=3)
    bqkv, bo, may_look = normals(70)(36), normals(72)(12), looks(71, 5, 5) if masked else None

    def multi_head(torch, x, wqkv, wo, bqkv, bo, may_look, part):
        layer = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        with torch.no_grad():
            for own, given in zip(
                (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias),
                (wqkv, bqkv, wo, bo),
                strict=True,
            ):
                own.copy_(given)
            forbidden = None if may_look is None else may_look == 0
            found = layer(x, x, x, attn_mask=forbidden, need_weights=True, average_attn_weights=False)
        return found[part == "weights"]

    expected = {part: pytorch(multi_head, x, wqkv, wo, bqkv, bo, may_look, part) for part in ("output", "weights")}
    blocks_agree(x, heads, heads, wqkv, wo, bqkv, may_look=may_look, bo=bo, seed=7, expected=expected)


def test_task_5_block_mlx():
    """MLX's own three projections, attention, and output projection."""
    x, heads, kv_heads, wqkv, wo = block_inputs(8)
    query, key, value = (mx.unflatten(x @ w.T, -1, (-1, 4)).swapaxes(1, 2) for w in mx.split(wqkv, [24, 32], axis=0))
    by_mlx = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal")
    expected = {"output": to_float64(by_mlx.swapaxes(1, 2).flatten(2) @ wo.T)}
    blocks_agree(x, heads, kv_heads, wqkv, wo, mask="causal", seed=8, expected=expected)


def test_task_5_block_sweep():
    for n in sweep(N=9, K=9, G=5, L=130, E=130, D=65):
        inputs = block_inputs(n.seed, n.dtype, n.N, n.L, n.E, n.K * n.G, n.K, n.D)
        mask, layout = n.turn("causal", None), n.turn("interleaved", "blocks", "interleaved")
        blocks_agree(inputs[0] * min(n.spread, 30.0), *inputs[1:], layout=layout, mask=mask, seed=n)


@property_test
@given(kv_heads=st.integers(1, 3), group=st.integers(1, 3), seed=st.integers(0, 99))
def test_task_5_block_permuted_weights_compute_the_same(kv_heads, group, seed):
    """Weight and bias of blocks, permuted, in an interleaved block."""
    heads = kv_heads * group
    x, *_, wqkv, wo = block_inputs(seed, heads=heads, kv_heads=kv_heads)
    bias = normals(seed + 100)(wqkv.shape[0])
    rows = mx.array(permutation64(heads, kv_heads, 4, "blocks", "interleaved").astype(np.int32))
    blocks_agree(x, heads, kv_heads, wqkv, wo, bias, seed=seed)
    expected = block64(*(to_float64(v) if isinstance(v, mx.array) else v for v in (x, heads, kv_heads, wqkv, wo, bias)))
    found = block(x, heads, kv_heads, wqkv[rows], wo, bias[rows], "interleaved")
    case = f"float32, H {heads}, H_kv {kv_heads}, weight and bias permuted to interleaved, seed {seed}"
    compare(found, expected, mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("rows", [39, 41, 50, 72])
def test_task_5_block_refuses_other_rows(rows):
    """72 would be three full parts, but keys and values have fewer heads; 50 would be heads of 5 features, not 4."""
    _, heads, kv_heads, _, wo = block_inputs(9)
    with raises_value_error(f"wqkv {rows} x 7, wo 7 x 24, num_heads 6, num_kv_heads 2", str(rows), "40"):
        attention.FusedMultiHeadAttention(heads, kv_heads, mx.zeros((rows, 7)), wo)
