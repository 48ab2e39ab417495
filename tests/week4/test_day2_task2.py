"""Task 4.2.2, from one layout to the other, checked against its formula, MLX's operators and transformers' BLOOM."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day2 import PARTS, permutation64, split64
from tests.week4.fused import by_layout, fused_features, one_of

from tiny_llm.fused_qkv import layouts
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def permutes(heads, kv_heads, dims, source, target, expected=None):
    # `1 x` and `x 1` mark sizes at which different mistakes have one result
    parts = f"queries {heads} x {dims}, keys {kv_heads} x {dims}"
    case = f"num_heads {heads}, num_kv_heads {kv_heads}, head_dim {dims} ({parts}), {source} to {target}"
    with noted(case):
        rows = layouts.qkv_permutation(heads, kv_heads, dims, source, target)
    wanted = permutation64(heads, kv_heads, dims, source, target) if expected is None else np.array(expected, float)
    compare(rows, wanted, mx.int32, 0.0, case, wanted.size, indirect=False)
    return rows


BOTH_WAYS = [("blocks", "interleaved"), ("interleaved", "blocks")]
both_ways = pytest.mark.parametrize(("source", "target"), BOTH_WAYS)


def test_task_2_permutation_two_heads():
    """q0 q1 k0 k1 v0 v1 becomes q0 k0 v0 q1 k1 v1, and back."""
    permutes(2, 2, 1, "blocks", "interleaved", [0, 2, 4, 1, 3, 5])
    permutes(2, 2, 1, "interleaved", "blocks", [0, 3, 1, 4, 2, 5])


@both_ways
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dims"), [(1, 1, 4), (3, 3, 1), (4, 4, 5), (6, 3, 5), (6, 2, 5), (4, 1, 3), (8, 2, 1)]
)
def test_task_2_permutation_formula(heads, kv_heads, dims, source, target):
    permutes(heads, kv_heads, dims, source, target)


@by_layout
def test_task_2_permutation_to_itself(layout):
    permutes(6, 3, 4, layout, layout, list(range(48)))


def test_task_2_permutation_mlx():
    """With one KV head per query head, MLX transposes 3 x H x D to H x 3 x D."""
    rows = mx.arange(3 * 4 * 5).reshape(3, 4, 5).transpose(1, 0, 2).flatten()
    permutes(4, 4, 5, "blocks", "interleaved", rows.tolist())


def test_task_2_permutation_transformers(pytorch):
    """BLOOM splits the permuted features, and gets the queries, keys and values of the blocks."""
    rows, fused = permutes(4, 4, 5, "blocks", "interleaved"), fused_features(1, 4, 4)

    def by_bloom(torch, fused, which):
        from transformers import BloomConfig
        from transformers.models.bloom.modeling_bloom import BloomAttention

        config = BloomConfig(hidden_size=20, n_head=4, n_layer=1)
        return BloomAttention(config, layer_idx=0)._reshape(fused)[which].detach()

    permuted = mx.array(np.array(fused)[..., permutation64(4, 4, 5, "blocks", "interleaved").astype(int)])
    for which, part in enumerate(PARTS):
        expected = split64(np.array(fused, dtype=np.float64), 4, 4, "blocks", part)
        compare(mx.array(pytorch(by_bloom, permuted, which)), expected, mx.float32, 1e-6, "BLOOM's own", fused.size)
        case = f"float32, fused 2 x 4 x 60, its features permuted, as BLOOM splits them, part {part}, seed 1"
        found = one_of(layouts.split_qkv(fused[..., rows], 4, 4, "interleaved"), part, *PARTS)
        compare(found, expected, mx.float32, 0.0, case, fused.size)


def test_task_2_permutation_sweep():
    for n in sizes(K=70, G=20, D=257):
        for source, target in BOTH_WAYS:
            permutes(n.K * n.G, n.K, n.D, source, target)


@property_test
@given(kv_heads=st.integers(1, 4), group=st.integers(1, 4), dims=st.integers(1, 6))
def test_task_2_permutation_there_and_back(kv_heads, group, dims):
    """One after the other, they are the identity."""
    there, back = (permutes(kv_heads * group, kv_heads, dims, *way) for way in BOTH_WAYS)
    case = f"num_heads {kv_heads * group}, num_kv_heads {kv_heads}, head_dim {dims}, there and back"
    compare(there[back], np.arange(float(there.size)), mx.int32, 0.0, case, there.size)


@pytest.mark.parametrize(
    ("source", "target"), [("blocks", "block"), ("per head", "blocks"), ("interleaved", ""), ("rows", "rows")]
)
def test_task_2_permutation_refuses_other_layouts(source, target):
    with raises_value_error(f"num_heads 6, num_kv_heads 3, head_dim 5, source {source}, target {target or 'empty'}"):
        layouts.qkv_permutation(6, 3, 5, source, target)


def test_task_2_permutation_refuses_uneven_groups():
    for source, target in (*BOTH_WAYS, ("blocks", "blocks"), ("interleaved", "interleaved")):
        with raises_value_error(f"num_heads 6, num_kv_heads 4, head_dim 5, source {source}, target {target}", "6", "4"):
            layouts.qkv_permutation(6, 4, 5, source, target)
