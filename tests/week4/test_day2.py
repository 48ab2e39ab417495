"""Week 4, day 2: fused QKV in both layouts and the way between them, dropout, attention that gives its weights.

Each task is held to its formula in float64, to MLX's own operators, to PyTorch and transformers; then to properties.
"""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day2 import PARTS, block64, dropout64, permutation64, split64, weights64

from tiny_llm.fused_qkv import attention, layouts
from tiny_llm.fused_qkv import dropout as dropping
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, causal, forbidding, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes, sweep

by_layout = pytest.mark.parametrize("layout", ["blocks", "interleaved"])


def one_of(found, part, *names):
    """The part of that name, of a program that gives several arrays."""
    if not isinstance(found, tuple) or len(found) != len(names):
        wanted = f"expected a tuple: {', '.join(names)}"
        raise CheckFailed(Finding(Kind.TYPE, f"returned {type_words(found)}, {wanted}", ()))
    return found[names.index(part)]


# Task 1, fused QKV


def split(fused, num_heads, num_kv_heads, layout, part):
    return one_of(layouts.split_qkv(fused, num_heads, num_kv_heads, layout), part, *PARTS)


def splits(fused, num_heads, num_kv_heads, layout, seed, expected=None):
    """All three parts. Nothing is computed, so that nothing is rounded."""
    for i, part in enumerate(PARTS):
        by = None if expected is None else expected[i]
        agrees(split, split64, fused, num_heads, num_kv_heads, layout, part, seed=seed, expected=by)


def fused_features(seed, heads=6, kv_heads=3, dims=5, leading=(2,), length=4, dtype=mx.float32):
    """N, L, H, H_kv and D all differ."""
    return normals(seed, dtype)(*leading, length, (heads + 2 * kv_heads) * dims)


@by_layout
@by_dtype
@pytest.mark.parametrize("leading", [(), (7,), (2, 7)], ids=str)
def test_task_1_split_formula(leading, dtype, layout):
    splits(fused_features(1, leading=leading, dtype=dtype), 6, 3, layout, 1)


@by_layout
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (4, 4), (4, 1), (8, 2), (6, 2)])
def test_task_1_split_any_number_of_heads(heads, kv_heads, layout):
    """From one head for all to a key-value head for each query head."""
    splits(fused_features(2, heads, kv_heads), heads, kv_heads, layout, 2)


@by_layout
def test_task_1_split_named_features(layout):
    """Four query heads and two key-value heads of two features: each number says whose it is."""
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
    """Falcon-40B has groups. transformers writes its keys and values out for every query head: here is each once."""
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
    """Of any dtype: the next task splits the numbers of rows."""
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
    """What is put together again interleaved is split interleaved as it was in blocks."""
    fused = fused_features(seed, heads, heads, dims)
    splits(fused, heads, heads, "blocks", seed)
    parts = layouts.split_qkv(fused, heads, heads, "blocks")
    again = mx.stack([part.swapaxes(1, 2) for part in parts], axis=3).flatten(2)
    case = f"float32, H {heads}, H_kv {heads}, D {dims}, split in blocks, put together interleaved, seed {seed}"
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
    with raises_value_error(f"float32, fused 2 x 4 x 50, num_heads 6, num_kv_heads 4, layout {layout}", "6", "4"):
        layouts.split_qkv(normals(8)(2, 4, 14 * 5), 6, 4, layout)


@by_layout
@pytest.mark.parametrize("features", [59, 61, 48])
def test_task_1_split_refuses_features_that_do_not_fit(features, layout):
    with raises_value_error(f"float32, fused 2 x 4 x {features}, num_heads 7, num_kv_heads 7", str(features), "21"):
        layouts.split_qkv(normals(9)(2, 4, features), 7, 7, layout)


# Task 2, from one layout to the other


def permutes(heads, kv_heads, dims, source, target, expected=None):
    case = f"num_heads {heads}, num_kv_heads {kv_heads}, head_dim {dims}, source {source}, target {target}"
    with noted(case):
        rows = layouts.qkv_permutation(heads, kv_heads, dims, source, target)
    wanted = permutation64(heads, kv_heads, dims, source, target) if expected is None else np.array(expected, float)
    compare(rows, wanted, mx.int32, 0.0, case, wanted.size, indirect=False)
    return rows


BOTH_WAYS = [("blocks", "interleaved"), ("interleaved", "blocks")]
both_ways = pytest.mark.parametrize(("source", "target"), BOTH_WAYS)


def test_task_2_permutation_two_heads():
    """q0 q1 k0 k1 v0 v1 becomes q0 k0 v0 q1 k1 v1, and comes back."""
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
    """With a key-value head for each query head, MLX transposes 3 x H x D to H x 3 x D."""
    rows = mx.arange(3 * 4 * 5).reshape(3, 4, 5).transpose(1, 0, 2).flatten()
    permutes(4, 4, 5, "blocks", "interleaved", rows.tolist())


def test_task_2_permutation_transformers(pytorch):
    """BLOOM splits what has been permuted, and finds the queries, keys and values of the blocks."""
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
        compare(split(fused[..., rows], 4, 4, "interleaved", part), expected, mx.float32, 0.0, case, fused.size)


def test_task_2_permutation_sweep():
    for n in sizes(K=70, G=20, D=257):
        for source, target in BOTH_WAYS:
            permutes(n.K * n.G, n.K, n.D, source, target)


@property_test
@given(kv_heads=st.integers(1, 4), group=st.integers(1, 4), dims=st.integers(1, 6))
def test_task_2_permutation_there_and_back(kv_heads, group, dims):
    """One after the other they leave every row where it was."""
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
    for target in ("interleaved", "blocks"):
        with raises_value_error(f"num_heads 6, num_kv_heads 4, head_dim 5, source blocks, target {target}", "6", "4"):
            layouts.qkv_permutation(6, 4, 5, "blocks", target)


# Task 3, dropout


def dropped(x, rate, training=True, chance=0):
    return dropping.dropout(x, rate, training, mx.random.key(chance))


@by_dtype
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_task_3_dropout_formula(rate, dtype):
    agrees(dropped, dropout64, normals(1, dtype)(4, 5, 6), rate, chance=11, seed=1)


@pytest.mark.parametrize("shape", [(), (1,), (300,), (2, 3), (2, 3, 4, 5)], ids=str)
def test_task_3_dropout_shapes(shape):
    agrees(dropped, dropout64, normals(2)(*shape), 0.3, chance=12, seed=2)


@by_dtype
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_task_3_dropout_off(rate, dtype):
    """When it is not training, any rate leaves everything."""
    agrees(dropped, dropout64, normals(3, dtype)(5, 40), rate, False, 13, seed=3)


@by_dtype
def test_task_3_dropout_rate_0(dtype):
    """A rate of 0 is a rate: nothing is dropped."""
    agrees(dropped, dropout64, normals(4, dtype)(5, 40), 0.0, chance=14, seed=4)


@by_dtype
@pytest.mark.parametrize("number", [0.0, 1.5, -math.inf, math.nan])
def test_task_3_dropout_rate_1(number, dtype):
    """Everything is dropped, and nothing is NaN."""
    x = mx.full((3, 4), number, dtype)
    case = f"{dtype}, x 3 x 4 of {number}, rate 1".replace("mlx.core.", "")
    with noted(case):
        found = dropped(x, 1.0)
    compare(found, np.zeros((3, 4)), dtype, 0.0, case, 12, indirect=False)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_task_3_dropout_of_no_number(number):
    """What is dropped is 0, whatever it was."""
    x, case = mx.full((50,), number), f"float32, x 50 of {number}, rate 0.5, chance 15"
    with noted(case):
        found = dropped(x, 0.5, chance=15)
    expected = np.where(dropout64(np.ones(50), 0.5, chance=15) == 0, 0.0, number)
    compare(found, expected, mx.float32, 0.0, case, 50, indirect=False)


def test_task_3_dropout_same_key():
    """The same key drops the same numbers, another one others."""
    x = normals(5)(8, 50)
    for chance in (16, 17, 16):
        agrees(dropped, dropout64, x, 0.4, chance=chance, seed=5)


def test_task_3_dropout_without_a_key():
    """MLX's own chances: as `mx.random.seed` sets them, and others with each call."""
    x = normals(6)(8, 50)
    for seed in (18, 19):
        mx.random.seed(seed)
        expected = [to_float64(nn.Dropout(0.4)(x)) for _ in range(3)]
        mx.random.seed(seed)
        case = f"float32, x 8 x 50, rate 0.4, three calls without a key after mx.random.seed({seed})"
        for each in expected:
            with noted(case):
                found = dropping.dropout(x, 0.4, True)
            compare(found, each, mx.float32, 1e-5, case, x.size, indirect=False)


def test_task_3_dropout_mlx_evaluates():
    layer, x = nn.Dropout(0.4), normals(7)(8, 50)
    layer.eval()
    agrees(dropped, dropout64, x, 0.4, False, seed=7, expected=to_float64(layer(x)))


@pytest.mark.parametrize(("rate", "training"), [(0.4, False), (0.0, True), (1.0, True)])
def test_task_3_dropout_pytorch(pytorch, rate, training):
    """PyTorch draws other chances; where there are none, it must agree."""
    x = normals(8)(5, 6)

    def drop(torch, x, rate, training):
        return torch.nn.functional.dropout(x, rate, training)

    agrees(dropped, dropout64, x, rate, training, seed=8, expected=pytorch(drop, x, rate, training))


def test_task_3_dropout_sweep():
    for n in sweep(A=300, B=4200):
        x = normals(n.seed, n.dtype)(n.A, n.B, spread=n.spread)
        agrees(dropped, dropout64, x, n.turn(0.25, 0.75, 0.1), True, n.seed, seed=n)


@property_test
@given(rate=st.sampled_from([0.05, 0.3, 0.5, 0.8]), chance=st.integers(0, 99))
def test_task_3_dropout_keeps_the_mean(rate, chance):
    """Of 10,000 ones so many stay, and so large, that their mean is 1 but for chance: five of its deviations."""
    x = mx.ones((100, 100))
    agrees(dropped, dropout64, x, rate, chance=chance, seed=0)
    allowed = 5 * math.sqrt(rate / (1 - rate) / x.size)
    case = f"float32, the mean of x 100 x 100 of ones, rate {rate}, chance {chance}"
    compare(mx.mean(dropped(x, rate, chance=chance)), np.array(1.0), mx.float32, allowed, case, x.size)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rate", [-0.1, 1.1, 50, -math.inf, math.nan])
def test_task_3_dropout_refuses_other_rates(rate, training):
    with raises_value_error(f"float32, x 3 x 4, rate {rate}, training {training}", str(rate)):
        mx.eval(dropping.dropout(normals(9)(3, 4), rate, training, mx.random.key(0)))


# Task 4, attention that gives its weights


def attended(
    query, key, value, scale=None, mask=None, may_look=None, rate=0.0, training=False, chance=0, part="output"
):
    mask = mask if may_look is None else may_look
    drops = (rate, training, mx.random.key(chance)) if rate or training else ()
    found = attention.attention_with_weights(query, key, value, scale, mask, *drops)
    return one_of(found, part, "output", "weights")


def weighs(*inputs, seed, expected=None, **named):
    """Weights first: they say more. `expected` is another oracle's answer for some of the parts."""
    for part in ("weights", "output"):
        by = (expected or {}).get(part)
        agrees(attended, weights64, *inputs, **named, part=part, seed=seed, expected=by)


def heads_of(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


def looks(seed, *shape):
    """About half of the keys may be looked at, by every query at least one."""
    return mx.isfinite(forbidding(seed, mx.zeros(shape)))


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_4_weights_formula(leading, dtype):
    weighs(*heads_of(1, dtype, leading), seed=1)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3)])
def test_task_4_weights_any_number_of_heads(heads, kv_heads):
    weighs(*heads_of(2, heads=heads, kv_heads=kv_heads), seed=2)


@by_dtype
@pytest.mark.parametrize("keys", [4, 7])
def test_task_4_weights_causal(keys, dtype):
    weighs(*heads_of(3, dtype, keys=keys), mask="causal", seed=3)


@pytest.mark.parametrize("scale", [1.0, 0.0, 0.3])
def test_task_4_weights_scale(scale):
    weighs(*heads_of(4), scale=scale, seed=4)


def test_task_4_weights_finite_mask():
    for shape in broadcasting(5, 6, 4, 7):
        weighs(*heads_of(5), mask=normals(50)(*shape, spread=2.0), seed=5)


@by_dtype
def test_task_4_weights_boolean_mask(dtype):
    """True may look: for each key, for each query, for each head, for each row."""
    for shape in ((7,), (4, 7), (6, 4, 7), (5, 1, 1, 7), (5, 6, 4, 7)):
        weighs(*heads_of(6, dtype), may_look=looks(60, *shape), seed=6)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_4_weights_float32_mask(dtype):
    """A mask of another float dtype leaves both results in query's dtype."""
    weighs(*heads_of(7, dtype), mask=causal(4, 7, mx.float32), seed=7)


@by_dtype
def test_task_4_weights_nothing_in_sight(dtype):
    """Query 1 may look at no key, said in booleans; then in infinities."""
    sees = mx.arange(4)[:, None] != 1
    weighs(*heads_of(8, dtype), may_look=mx.broadcast_to(sees, (4, 7)), seed=8)
    weighs(*heads_of(8, dtype), mask=mx.where(sees, mx.zeros((4, 7)), -mx.inf).astype(dtype), seed=8)


@pytest.mark.parametrize("masked", [False, True])
def test_task_4_weights_mlx(masked):
    query, key, value = heads_of(9)
    may_look = looks(90, 6, 4, 7) if masked else None
    expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=may_look)
    # Values that are the identity make the weights the output.
    eye = mx.broadcast_to(mx.eye(7), (5, 2, 7, 7))
    weights = mx.fast.scaled_dot_product_attention(query, key, eye, scale=0.5, mask=may_look)
    both = {"output": to_float64(expected), "weights": to_float64(weights)}
    weighs(query, key, value, scale=0.5, may_look=may_look, seed=9, expected=both)


def test_task_4_weights_pytorch(pytorch):
    """PyTorch's attention, too, gives zeros where nothing is in sight."""
    query, key, value = heads_of(10)
    may_look = looks(100, 4, 7) & (mx.arange(4)[:, None] != 2)

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m > 0, enable_gqa=True)

    expected = {"output": pytorch(sdpa, query, key, value, may_look)}
    weighs(query, key, value, may_look=may_look, seed=10, expected=expected)


@by_dtype
@pytest.mark.parametrize("rate", [0.1, 0.6, 1.0])
def test_task_4_weights_dropout(rate, dtype):
    """The output is made of what is left of the weights; the weights are given as they were."""
    weighs(*heads_of(11, dtype), mask="causal", rate=rate, training=True, chance=110, seed=11)


@pytest.mark.parametrize(("rate", "training"), [(0.6, False), (0.0, True)])
def test_task_4_weights_dropout_off(rate, training):
    weighs(*heads_of(12), rate=rate, training=training, chance=120, seed=12)


def test_task_4_weights_dropout_nothing_in_sight():
    sees = mx.broadcast_to(mx.arange(4)[:, None] != 1, (4, 7))
    weighs(*heads_of(13), may_look=sees, rate=0.4, training=True, chance=130, seed=13)


def test_task_4_weights_large_scores():
    query, key, value = heads_of(14)
    weighs(query * 40, key * 40, value, mask="causal", seed=14)


def test_task_4_weights_sweep():
    for n in sweep(K=20, G=9, L=65, X=1100, D=130):
        query, key, value = heads_of(n.seed, n.dtype, (2,), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        shape = *n.turn((), (2, 1), (n.K * n.G,)), n.L, n.L + n.X - 1
        named = {"mask": mask_of(n.turn("causal", *MASKS[:3]), n.seed, n.dtype, *shape)}
        if n.turn(False, True):
            named = {"may_look": looks(n.seed, *shape)}
        weighs(query * n.spread, key, value * n.spread, **named, seed=n)


@property_test
@given(kv_heads=st.integers(1, 3), group=st.integers(1, 3), seed=st.integers(0, 99))
def test_task_4_weights_rows_sum_to_one(kv_heads, group, seed):
    """Also in training: the weights that are given have not been dropped."""
    query, key, value = heads_of(seed, mx.float32, (), kv_heads * group, kv_heads, 3, 5)
    weighs(query, key, value, rate=0.5, training=True, chance=seed, seed=seed)
    weights = attended(query, key, value, rate=0.5, training=True, chance=seed, part="weights")
    case = f"float32, the sums of the weights' rows, H {kv_heads * group}, H_kv {kv_heads}, rate 0.5, seed {seed}"
    compare(weights.sum(axis=-1), np.ones((kv_heads * group, 3)), mx.float32, 1e-5, case, query.size)


def test_task_4_weights_refuses_uneven_groups():
    with raises_value_error("float32, query 5 x 5 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"):
        attention.attention_with_weights(*heads_of(15, heads=5))


@pytest.mark.parametrize("word", ["future", "Causal", ""])
def test_task_4_weights_refuses_unknown_masks(word):
    with raises_value_error(f"float32, query 5 x 6 x 4 x 8, key 5 x 2 x 7 x 8, mask {word or 'of no letters'}"):
        attention.attention_with_weights(*heads_of(16), mask=word)


def test_task_4_weights_refuses_a_causal_mask_for_more_queries_than_keys():
    with raises_value_error('float32, query 5 x 6 x 4 x 8, key 5 x 2 x 3 x 8, mask "causal"'):
        attention.attention_with_weights(*heads_of(17, keys=3), mask="causal")


@pytest.mark.parametrize("training", [True, False])
def test_task_4_weights_refuses_other_rates(training):
    with raises_value_error(f"float32, query 5 x 6 x 4 x 8, rate 1.5, training {training}", "1.5"):
        attention.attention_with_weights(*heads_of(18), rate=1.5, training=training)


# Task 5, the whole block


@built
def block(
    x, num_heads, num_kv_heads, wqkv, wo, bqkv=None, layout="blocks", mask=None, may_look=None, rate=0.0,
    training=False, chance=0, part="output",
):  # fmt: skip
    layer = attention.FusedMultiHeadAttention(num_heads, num_kv_heads, wqkv, wo, bqkv, layout, rate)

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
    blocks_agree(*block_inputs(2), normals(20)(40), layout, mask="causal", seed=2)


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


@by_layout
def test_task_5_block_as_wide_as_its_heads(layout):
    """E = H * D, where a wrong order has the right shape."""
    blocks_agree(*block_inputs(6, hidden=12, heads=3, kv_heads=3), layout=layout, mask="causal", seed=6)


@pytest.mark.parametrize("masked", [False, True])
def test_task_5_block_pytorch(pytorch, masked):
    """`MultiheadAttention` has the fused weight in blocks; its boolean masks say where one may *not* look."""
    x, heads, _, wqkv, wo = block_inputs(7, hidden=12, heads=3, kv_heads=3)
    bqkv, may_look = normals(70)(36), looks(71, 5, 5) if masked else None

    def multi_head(torch, x, wqkv, wo, bqkv, may_look, part):
        layer = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        with torch.no_grad():
            for own, given in zip(
                (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias),
                (wqkv, bqkv, wo, torch.zeros(12)),
                strict=True,
            ):
                own.copy_(given)
            forbidden = None if may_look is None else may_look == 0
            found = layer(x, x, x, attn_mask=forbidden, need_weights=True, average_attn_weights=False)
        return found[part == "weights"]

    expected = {part: pytorch(multi_head, x, wqkv, wo, bqkv, may_look, part) for part in ("output", "weights")}
    blocks_agree(x, heads, heads, wqkv, wo, bqkv, may_look=may_look, seed=7, expected=expected)


def test_task_5_block_mlx():
    """Three projections of MLX's own, its attention, and the way back."""
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
    """The weight and the bias of blocks, permuted, in a block that takes them interleaved."""
    heads = kv_heads * group
    x, *_, wqkv, wo = block_inputs(seed, heads=heads, kv_heads=kv_heads)
    bias = normals(seed + 100)(wqkv.shape[0])
    rows = mx.array(permutation64(heads, kv_heads, 4, "blocks", "interleaved").astype(np.int32))
    blocks_agree(x, heads, kv_heads, wqkv, wo, bias, seed=seed)
    expected = block64(*(to_float64(v) if isinstance(v, mx.array) else v for v in (x, heads, kv_heads, wqkv, wo, bias)))
    found = block(x, heads, kv_heads, wqkv[rows], wo, bias[rows], "interleaved")
    case = f"float32, H {heads}, H_kv {kv_heads}, weight and bias permuted to interleaved, seed {seed}"
    compare(found, expected, mx.float32, 1e-4, case, x.size)


@pytest.mark.parametrize("rows", [39, 41, 72])
def test_task_5_block_refuses_other_rows(rows):
    """72 are those of three full parts, where keys and values have fewer heads."""
    _, heads, kv_heads, _, wo = block_inputs(9)
    with raises_value_error(f"wqkv {rows} x 7, wo 7 x 24, num_heads 6, num_kv_heads 2", str(rows), "40"):
        attention.FusedMultiHeadAttention(heads, kv_heads, mx.zeros((rows, 7)), wo)
