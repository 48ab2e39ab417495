"""Task 4.2.1, fused QKV, checked against its formula in float64, PyTorch, and transformers' BLOOM and Falcon."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day2 import PARTS, split64
from tests.week4.fused import by_layout, fused_features, one_of

from tiny_llm.fused_qkv import layouts
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes


def split(fused, num_heads, num_kv_heads, layout, part):
    return one_of(layouts.split_qkv(fused, num_heads, num_kv_heads, layout), part, *PARTS)


def splits(fused, num_heads, num_kv_heads, layout, seed, expected=None):
    """Check all three parts. Nothing is computed, so nothing is rounded."""
    for i, part in enumerate(PARTS):
        by = None if expected is None else expected[i]
        agrees(split, split64, fused, num_heads, num_kv_heads, layout, part, seed=seed, expected=by)


@by_layout
@by_dtype
@pytest.mark.parametrize("leading", [(), (7,), (2, 7)], ids=str)
def test_task_1_split_formula(leading, dtype, layout):
    splits(fused_features(1, leading=leading, dtype=dtype), 6, 3, layout, 1)


@by_layout
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (4, 4), (4, 1), (8, 2), (6, 2)])
def test_task_1_split_any_number_of_heads(heads, kv_heads, layout):
    """From one KV head for all to one per query head."""
    splits(fused_features(2, heads, kv_heads), heads, kv_heads, layout, 2)


@by_layout
def test_task_1_split_named_features(layout):
    """Four query heads and two KV heads of two features: each number identifies its vector."""
    names = {"blocks": "q0 q1 q2 q3 k0 k1 v0 v1", "interleaved": "q0 q1 k0 v0 q2 q3 k1 v1"}[layout].split()
    numbers = [10 * (1 + "qkv".index(name[0])) + int(name[1]) + half for name in names for half in (0, 0.5)]
    splits(mx.array([[[*numbers]]]), 4, 2, layout, 3)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_task_1_split_pytorch_blocks(pytorch, kv_heads):
    fused = fused_features(4, 4, kv_heads)

    def cut(torch, fused, kv, which):
        part = torch.split(fused, [4 * 5, kv * 5, kv * 5], dim=-1)[which]
        return part.unflatten(-1, (-1, 5)).transpose(1, 2)

    splits(fused, 4, kv_heads, "blocks", 4, [pytorch(cut, fused, kv_heads, which) for which in range(3)])


def test_task_1_split_transformers_bloom(pytorch):
    fused = fused_features(5, 4, 4)

    def by_bloom(torch, fused, which):
        from transformers import BloomConfig
        from transformers.models.bloom.modeling_bloom import BloomAttention

        config = BloomConfig(hidden_size=20, n_head=4, n_layer=1)
        return BloomAttention(config, layer_idx=0)._reshape(fused)[which].detach()

    splits(fused, 4, 4, "interleaved", 5, [pytorch(by_bloom, fused, which) for which in range(3)])


def test_task_1_split_transformers_falcon(pytorch):
    """Falcon-40B has groups. transformers repeats its keys and values for every query head: here each is taken once."""
    fused = fused_features(6, 6, 2, dims=4)

    def by_falcon(torch, fused, which):
        from transformers import FalconConfig
        from transformers.models.falcon.modeling_falcon import FalconAttention

        config = FalconConfig(
            hidden_size=24, num_attention_heads=6, num_kv_heads=2, new_decoder_architecture=True, num_hidden_layers=1
        )
        part = FalconAttention(config, layer_idx=0)._split_heads(fused)[which].transpose(1, 2).detach()
        return part[:, :: 3 if which else 1]

    splits(fused, 6, 2, "interleaved", 6, [pytorch(by_falcon, fused, which) for which in range(3)])


@by_layout
def test_task_1_split_integers(layout):
    """Of any dtype: the next task splits row indices."""
    rows = mx.arange(12 * 5, dtype=mx.int32)[None]
    for part in PARTS:
        case = f"int32, the numbers 0 to 59, num_heads 6, num_kv_heads 3, layout {layout}, part {part}"
        with noted(case):
            found = split(rows, 6, 3, layout, part)
        expected = split64(np.arange(60.0)[None], 6, 3, layout, part)
        compare(found, expected, mx.int32, 0.0, case, 60, indirect=False)


def test_task_1_split_sweep():
    for n in (*sizes(K=20, G=9, L=1100, D=257), *narrow(K=20, G=9, L=1100, D=257)):
        layout, heads = n.turn("interleaved", "blocks"), n.K * n.G
        splits(fused_features(n.seed, heads, n.K, n.D, (2,), n.L, n.dtype), heads, n.K, layout, n)


@property_test
@given(heads=st.integers(1, 5), dims=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_1_split_layouts_differ_only_in_order(heads, dims, seed):
    """Vectors that were rearranged to interleaved and split interleaved are the same as split from blocks."""
    fused = fused_features(seed, heads, heads, dims)
    splits(fused, heads, heads, "blocks", seed)
    parts = layouts.split_qkv(fused, heads, heads, "blocks")
    again = mx.stack([part.swapaxes(1, 2) for part in parts], axis=3).flatten(2)
    case = f"float32, H {heads}, H_kv {heads}, D {dims}, split from blocks, rearranged to interleaved, seed {seed}"
    for part, expected in zip(PARTS, parts, strict=True):
        with noted(case):
            found = split(again, heads, heads, "interleaved", part)
        compare(found, to_float64(expected), mx.float32, 0.0, f"{case}, part {part}", fused.size)


@pytest.mark.parametrize("word", ["block", "Blocks", "interleave", "", "per-head"])
def test_task_1_split_refuses_other_layouts(word):
    with raises_value_error(f"float32, fused 2 x 4 x 60, layout {word or 'of no letters'}", word):
        layouts.split_qkv(fused_features(7), 6, 3, word)


@by_layout
def test_task_1_split_refuses_uneven_groups(layout):
    with raises_value_error(f"float32, fused 2 x 4 x 70, num_heads 6, num_kv_heads 4, layout {layout}", "6", "4"):
        layouts.split_qkv(normals(8)(2, 4, 14 * 5), 6, 4, layout)


@by_layout
@pytest.mark.parametrize("features", [59, 61, 48, 28])
def test_task_1_split_refuses_features_that_do_not_fit(features, layout):
    case = f"float32, fused 2 x 4 x {features}, num_heads 7, num_kv_heads 7, layout {layout}"
    with raises_value_error(case, str(features), "21"):
        layouts.split_qkv(normals(9)(2, 4, features), 7, 7, layout)
