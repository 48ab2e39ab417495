"""Week 4, day 3: the mask of a sliding window, local layers, attention in blocks, the rolling cache.

Each task is held to the formula in float64, to MLX's operator where it has one, and to PyTorch or transformers. Blocks
and caches are held to the dense form with the mask, for lengths on both sides of the window.
"""

import copy
import json
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.in_parts import Parts
from tests.week4.formulas_day3 import sees, window64, windowed64, windows64

from tiny_llm.local_attention import blocks, cache, layers, masks
from tiny_llm_course.testkit.again import backwards
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import CASE_NOTE, dtype_word, noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes, sweep
from tiny_llm_course.testkit.texts import again

# A window and its sinks: none, one, more of them than the window has, and no window at all.
WINDOWS = [(3, 0), (3, 1), (2, 4), (1, 0), (1, 2), (None, 0), (None, 2)]
by_window = pytest.mark.parametrize(("window", "sinks"), WINDOWS)


# Task 1, the mask


def mask_agrees(length, keys, window, sinks=0, dtype=mx.float32, expected=None):
    """Every entry of a mask is 0 or -inf, so that there is nothing to round."""
    case = f"{dtype_word(dtype)}, L {length}, S {keys}, window {window}, sinks {sinks}"
    try:
        mask = masks.window_mask(length, keys, window, sinks, dtype)
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    by_formula = window64(length, keys, window, sinks) if expected is None else expected
    compare(mask, by_formula, dtype, 0.0, case, length * keys, indirect=False)
    return mask


@by_dtype
@by_window
def test_task_1_window_formula(window, sinks, dtype):
    for length, keys in [(1, 1), (5, 5), (1, 7), (2, 7), (4, 9)]:
        mask_agrees(length, keys, window, sinks, dtype)


def test_task_1_window_five_tokens():
    """`That is a blue dog` with a window of 2 and a sink, as chapter 4.3 prints it."""
    hidden = -np.inf
    rows = [
        [0, hidden, hidden, hidden, hidden],
        [0, 0, hidden, hidden, hidden],
        [0, 0, 0, hidden, hidden],
        [0, hidden, 0, 0, hidden],
        [0, hidden, hidden, 0, 0],
    ]
    mask_agrees(5, 5, 2, 1, expected=np.array(rows))


def test_task_1_window_defaults():
    """No sinks and float32, where nothing else is said."""
    case = "L 2, S 5, window 3, and nothing else"
    with noted(case):
        mask = masks.window_mask(2, 5, 3)
    compare(mask, window64(2, 5, 3), mx.float32, 0.0, case, 10)


@pytest.mark.parametrize("window", [5, 6, 100, None])
def test_task_1_window_mlx(window):
    """A window in which all has room does in MLX's operator what its "causal" does."""
    mask, draw = mask_agrees(3, 5, window, 1), normals(1)
    query, key, value = draw(2, 4, 3, 8), draw(2, 4, 5, 8), draw(2, 4, 5, 8)
    masked = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask)
    named = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal")
    case = f"float32, L 3, S 5, window {window}, sinks 1, the mask in MLX's own attention, seed 1"
    compare(masked, to_float64(named), mx.float32, 1e-5, case, 15)


@pytest.mark.parametrize(("length", "keys", "window"), [(5, 5, 1), (5, 5, 3), (2, 9, 4), (7, 7, 9)])
def test_task_1_window_transformers(pytorch, length, keys, window):
    """transformers' own function of a sliding window, asked for every query and key."""

    def overlay(torch, length, keys, window):
        from transformers.masking_utils import sliding_window_causal_mask_function

        queries, positions = torch.arange(keys - length, keys)[:, None], torch.arange(keys)[None]
        seen = sliding_window_causal_mask_function(window)(0, 0, queries, positions)
        return torch.where(seen, 0.0, -torch.inf)

    mask_agrees(length, keys, window, expected=pytorch(overlay, length, keys, window))


@pytest.mark.parametrize(("length", "keys", "window", "sinks"), [(6, 6, 2, 1), (3, 8, 2, 3), (1, 8, 3, 2)])
def test_task_1_window_pytorch(pytorch, length, keys, window, sinks):
    """Two triangles of PyTorch's leave a band, and the first columns keep the lower one alone."""

    def triangles(torch, length, keys, window, sinks):
        causal = torch.ones(length, keys).tril(keys - length)
        band = causal.triu(keys - length - window + 1)
        band[:, :sinks] = causal[:, :sinks]
        return torch.where(band == 1, 0.0, -torch.inf)

    mask_agrees(length, keys, window, sinks, expected=pytorch(triangles, length, keys, window, sinks))


@property_test
@given(keys=st.integers(1, 12), length=st.integers(1, 12), window=st.integers(1, 6), sinks=st.integers(0, 4))
def test_task_1_window_is_the_last_rows_of_the_whole(keys, length, window, sinks):
    length = min(length, keys)
    whole = mask_agrees(keys, keys, window, sinks)
    case = f"float32, L {length}, S {keys}, window {window}, sinks {sinks}, against the last {length} rows of L {keys}"
    mask = masks.window_mask(length, keys, window, sinks, mx.float32)
    compare(mask, to_float64(whole)[keys - length :], mx.float32, 0.0, case, length * keys)


@property_test
@given(keys=st.integers(1, 14), length=st.integers(1, 14), window=st.integers(1, 5), sinks=st.integers(0, 4))
def test_task_1_window_without_what_nobody_sees(keys, length, window, sinks):
    """Keys that no query sees can be left out: what is left has the mask of a text that is so long."""
    length = min(length, keys)
    whole = to_float64(mask_agrees(length, keys, window, sinks))
    seen = ~np.isinf(whole).all(axis=0)
    count = max(int(seen.sum()), min(sinks, keys) + min(length, keys - min(sinks, keys)))
    case = f"float32, L {length}, window {window}, sinks {sinks}: S {keys} without its unseen keys, against S {count}"
    if count == seen.sum():
        compare(masks.window_mask(length, count, window, sinks), whole[:, seen], mx.float32, 0.0, case, length * count)


def test_task_1_window_sweep():
    largest = {"L": 257, "X": 1100, "W": 1100, "K": 70}
    for n in (*sizes(**largest), *narrow(**largest)):
        mask_agrees(n.L, n.L + n.X - 1, n.turn(n.W, n.W, None), n.K - 1, n.dtype)


@pytest.mark.parametrize(("length", "keys"), [(2, 1), (5, 3)])
def test_task_1_window_refuses_more_queries_than_keys(length, keys):
    with raises_value_error(f"float32, L {length}, S {keys}, window 2", str(length), str(keys)):
        mx.eval(masks.window_mask(length, keys, 2))


@pytest.mark.parametrize(("window", "sinks"), [(0, 0), (-2, 1), (3, -1)])
def test_task_1_window_refuses_what_is_none(window, sinks):
    with raises_value_error(f"L 2, S 4, window {window}, sinks {sinks}", str(min(window, sinks))):
        mx.eval(masks.window_mask(2, 4, window, sinks))


# Task 2, local layers


def windows_agree(config, expected=None):
    """A list of windows, in order, each an int or None; the config stays as it was."""
    config = {name: value for name, value in config.items() if value is not ...}
    case, given = f"config {json.dumps(config)}", copy.deepcopy(config)
    found = again(lambda: layers.layer_windows(config), case)
    if config != given:
        fail(Kind.INPUT_CHANGED, "the caller's `config` was changed", case)
    if not isinstance(found, list):
        fail(Kind.TYPE, f"got {type_words(found)}, expected a list", case)
    for each in found:
        if each is not None and type(each) is not int:
            fail(Kind.TYPE, f"a layer has {type_words(each)}, expected an int or None", case)
    wanted = windows64(config) if expected is None else expected
    if found != wanted:
        at = next(
            (i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), min(len(found), len(wanted))
        )
        begin = max(0, at - 2)
        lines = [
            f"{name}{str(x[begin : begin + 8])[1:-1]}" for name, x in (("expected  ", wanted), ("got       ", found))
        ]
        told = f"wrong windows, first different at layer {at}"
        if len(found) != len(wanted):
            told = f"{len(found)} windows for {len(wanted)} layers"
        raise CheckFailed(Finding(Kind.VALUES, told, (*lines, f"both from layer {begin} on"), case, len(wanted)))


# `...` stands for a key that the config does not have.
QWEN = {"model_type": "qwen3", "num_hidden_layers": 6, "sliding_window": 4096, "use_sliding_window": True}
CONFIGS = {
    "qwen3, off": {**QWEN, "use_sliding_window": False, "max_window_layers": 3},
    "qwen3, no switch": {**QWEN, "use_sliding_window": ..., "max_window_layers": 3},
    "qwen3, on": {**QWEN, "max_window_layers": 4},
    "qwen2, on from the first": {**QWEN, "model_type": "qwen2", "max_window_layers": 0},
    "qwen2, none is left": {**QWEN, "model_type": "qwen2", "max_window_layers": 6},
    "qwen2, 28 by default": {**QWEN, "model_type": "qwen2", "num_hidden_layers": 31},
    "qwen3, words": {**QWEN, "max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention"] * 3},
    "qwen3, null": {**QWEN, "sliding_window": None},
    "qwen3-moe, off": {**QWEN, "model_type": "qwen3_moe", "use_sliding_window": False, "max_window_layers": 3},
    "qwen3-moe, on": {**QWEN, "model_type": "qwen3_moe", "max_window_layers": 3},
    "mistral": {"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 4096},
    "mistral, null": {"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": None},
    "gemma2": {"model_type": "gemma2", "num_hidden_layers": 5, "sliding_window": 4096},
    "gemma3": {"model_type": "gemma3_text", "num_hidden_layers": 13, "sliding_window": 512},
    "gemma3, pattern": {"model_type": "gemma3_text", "num_hidden_layers": 8, "sliding_window": 9,
                        "sliding_window_pattern": 3},
    "gpt-oss": {"model_type": "gpt_oss", "num_hidden_layers": 4, "sliding_window": 128},
    "cohere2": {"model_type": "cohere2", "num_hidden_layers": 9, "sliding_window": 4096},
}  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_task_2_layers_rules(config):
    windows_agree(config)


def test_task_2_layers_first_layers_are_global():
    """max_window_layers 4 of 6: the name says little, the numbers count."""
    windows_agree(CONFIGS["qwen3, on"], [None, None, None, None, 4096, 4096])


def test_task_2_layers_the_last_of_each_six_is_global():
    windows_agree(CONFIGS["gemma3"], [*[512] * 5, None, *[512] * 5, None, 512])


def test_task_2_layers_words_count_most():
    words = ["full_attention", "sliding_attention", "sliding_attention"]
    for kind, extra in [("qwen3", {"use_sliding_window": True}), ("gemma3_text", {}), ("mistral", {}), ("phi9", {})]:
        config = {"model_type": kind, "num_hidden_layers": 3, "sliding_window": 7, "layer_types": words, **extra}
        windows_agree(config, [None, 7, 7])


def test_task_2_layers_little_is_said():
    """A config of a model that has no windows at all, one without a model_type, words that are all full."""
    windows_agree({"model_type": "llama", "num_hidden_layers": 2}, [None, None])
    windows_agree({"num_hidden_layers": 2, "sliding_window": 5}, [5, 5])
    windows_agree({"num_hidden_layers": 4, "sliding_window": 5, "sliding_window_pattern": 2}, [5, None, 5, None])
    windows_agree({"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}, [None, None])
    windows_agree({**QWEN, "use_sliding_window": False, "layer_types": ["full_attention"] * 6}, [None] * 6)


@pytest.mark.parametrize("name", CONFIGS)
def test_task_2_layers_transformers(pytorch, name):
    """transformers' configuration of the same model: the windows of its layers, 0 for none."""
    config = {key: value for key, value in CONFIGS[name].items() if value is not ...}

    def by_transformers(torch, text):
        from transformers import AutoConfig

        given = json.loads(text)
        built = AutoConfig.for_model(given.pop("model_type"), **given)
        everywhere = ["sliding_attention"] * built.num_hidden_layers
        words = getattr(built, "layer_types", None) or everywhere
        return torch.tensor([built.sliding_window or 0 if word == "sliding_attention" else 0 for word in words])

    recorded = pytorch(by_transformers, json.dumps(config))
    windows_agree(config, [int(each) or None for each in recorded])


def test_task_2_layers_sweep():
    kinds = ("mistral", "qwen2", "gemma2", "qwen3", "gemma3_text", "cohere2", "qwen3_moe", "gpt_oss", "llama")
    for n in sizes(M=100, W=4200, P=70):
        config = {"model_type": n.turn(*kinds), "num_hidden_layers": n.M, "sliding_window": n.turn(n.W, n.W, n.W, None)}
        switch = n.turn({}, {"use_sliding_window": True}, {"use_sliding_window": True}, {"use_sliding_window": False})
        more = n.turn({}, {"max_window_layers": n.P}, {"sliding_window_pattern": n.P}, {"layer_types": None}, {})
        windows_agree({**config, **switch, **more})
        generator = np.random.default_rng(n.seed)
        words = generator.choice(["sliding_attention", "full_attention"], n.M).tolist()
        windows_agree({"num_hidden_layers": n.M, "sliding_window": n.W, "layer_types": words, **more})


@pytest.mark.parametrize("window", [0, -4, "4096", 12.5, True])
def test_task_2_layers_refuses_a_window_that_is_none(window):
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": window}
    with raises_value_error(f"config {config}", "sliding_window"):
        layers.layer_windows(config)


@pytest.mark.parametrize("words", [["full_attention"], ["sliding_attention"] * 3, []], ids=len)
def test_task_2_layers_refuses_another_number_of_words(words):
    config = {"num_hidden_layers": 2, "sliding_window": 4, "layer_types": words}
    with raises_value_error(f"config {config}", "layer_types"):
        layers.layer_windows(config)


@pytest.mark.parametrize("word", ["chunked_attention", "linear_attention", "", "Sliding_Attention"])
def test_task_2_layers_refuses_unknown_words(word):
    config = {"num_hidden_layers": 2, "sliding_window": 4, "layer_types": ["full_attention", word]}
    with raises_value_error(f"config {config}", "layer_types"):
        layers.layer_windows(config)


@pytest.mark.parametrize(
    "off", [{"sliding_window": None}, {"use_sliding_window": False}, {"model_type": "qwen3"}], ids=str
)
def test_task_2_layers_refuses_what_contradicts_itself(off):
    """Local layers by their words, and no window."""
    words = ["full_attention", "sliding_attention"]
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 4, "layer_types": words, **off}
    with raises_value_error(f"config {config}", "layer_types"):
        layers.layer_windows(config)


# Task 3, attention in blocks


def windowed(query, key, value, window, sinks=0, scale=None, block_size=64):
    return blocks.windowed_attention(query, key, value, window, sinks, scale, block_size)


def inputs(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_3_blocks_formula(leading, dtype):
    agrees(windowed, windowed64, *inputs(1, dtype, leading, length=9, keys=9), 3, 1, block_size=4, seed=1)


@by_window
@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 64])
def test_task_3_blocks_windows(block_size, window, sinks):
    agrees(windowed, windowed64, *inputs(2, length=9, keys=12), window, sinks, block_size=block_size, seed=2)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13])
@pytest.mark.parametrize("sinks", [0, 1, 5])
def test_task_3_blocks_lengths_around_the_window(length, sinks):
    """A window of 4: shorter texts, ones that just fill it, and longer ones; also with tokens before."""
    for before in (0, 1, 3, 4, 7):
        agrees(
            windowed, windowed64, *inputs(3, leading=(), length=length, keys=before + length), 4, sinks,
            block_size=3, seed=3,
        )  # fmt: skip


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3), (6, 2)])
def test_task_3_blocks_heads(heads, kv_heads):
    three = inputs(4, heads=heads, kv_heads=kv_heads, length=8, keys=8)
    agrees(windowed, windowed64, *three, 3, 2, block_size=3, seed=4)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_3_blocks_scale(scale):
    agrees(windowed, windowed64, *inputs(5, length=7), 3, 1, scale=scale, block_size=3, seed=5)


@pytest.mark.parametrize(("window", "sinks"), [(3, 0), (3, 2), (None, 0)])
def test_task_3_blocks_mlx(window, sinks):
    """MLX's operator, given the whole mask."""
    query, key, value = inputs(6, length=7, keys=11)
    mask = mx.array(window64(7, 11, window, sinks).astype(np.float32))
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    agrees(windowed, windowed64, query, key, value, window, sinks, 0.5, 3, seed=6, expected=expected)


@pytest.mark.parametrize("length", [4, 11])
def test_task_3_blocks_pytorch(pytorch, length):
    """PyTorch's operator, given which keys are seen."""
    query, key, value = inputs(7, length=length, keys=11)

    def sdpa(torch, q, k, v):
        positions = torch.arange(11)
        back = positions[11 - length :, None] - positions
        seen = (back >= 0) & ((back < 4) | (positions < 2))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)

    agrees(windowed, windowed64, query, key, value, 4, 2, None, 3, seed=7, expected=pytorch(sdpa, query, key, value))


@pytest.mark.parametrize(("window", "sinks"), [(4, 0), (4, 2), (1, 1), (None, 0)])
@pytest.mark.parametrize("before", [0, 6])
def test_task_3_blocks_never_touched(before, window, sinks):
    """For each block of queries: NaN in all keys and values that none of them sees."""
    size, length = 5, 18
    query, key, value = inputs(8, leading=(), length=length, keys=before + length)
    agrees(windowed, windowed64, query, key, value, window, sinks, block_size=size, seed=8)
    expected = windowed64(*(to_float64(x) for x in (query, key, value)), window, sinks)
    for first in range(0, length, size):
        rows = range(first, min(length, first + size))
        seen = [any(sees(before + i, j, window, sinks) for i in rows) for j in range(before + length)]
        poison = mx.where(mx.array(seen)[:, None], 0.0, mx.nan)
        case = (
            f"float32, query 6 x {length} x 8, key 2 x {before + length} x 8, window {window}, sinks {sinks}, "
            f"block_size {size}, NaN in the {seen.count(False)} keys hidden from queries {first} to {rows[-1]}, seed 8"
        )
        with noted(case):
            output = windowed(query, key + poison, value + poison, window, sinks, block_size=size)
        some = slice(first, rows[-1] + 1)
        compare(output[:, some], expected[:, some], mx.float32, 1e-5, case, query.size, indirect=False)


@pytest.mark.parametrize(("length", "keys"), [(2048, 2048), (32, 8192)])
def test_task_3_blocks_hold_no_table(length, keys):
    """Of many queries, and of few behind many keys: blocks do not wait, and hidden keys are not computed."""
    query, key, value = inputs(9, leading=(), heads=2, kv_heads=1, length=length, keys=keys)
    mx.eval(query, key, value)
    agrees(windowed, windowed64, *inputs(9, length=9, keys=9), 3, 1, block_size=4, seed=9)
    case = f"float32, query 2 x {length} x 8, key 1 x {keys} x 8, window 32, sinks 4, block_size 32, seed 9"
    most = max(2**18, length * keys // 8)
    with noted(case):
        run = partial(windowed, query, key, value, 32, 4, None, 32)
        holds_less(run, most, "what a few blocks take", case=case)


def test_task_3_blocks_sweep():
    for n in sweep(N=9, K=9, G=9, L=257, X=1100, D=70, W=1100):
        three = inputs(n.seed, n.dtype, (n.N,), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        query, value = three[0] * n.spread, three[2] * n.spread
        window, sinks, size = n.turn(n.W, 1, n.L, None, 7), n.turn(0, 4, n.W, 1), n.turn(64, n.L, 1, 7)
        if n.L > 20 and size < 7:
            size = 64
        agrees(windowed, windowed64, query, three[1], value, window, sinks, n.turn(None, -0.7), size, seed=n)


@property_test
@given(
    length=st.integers(1, 12),
    before=st.integers(0, 9),
    window=st.integers(1, 8),
    sinks=st.integers(0, 6),
    size=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_task_3_blocks_make_no_difference(length, before, window, sinks, size, seed):
    three = inputs(seed, leading=(), heads=4, length=length, keys=before + length)
    agrees(windowed, windowed64, *three, window, sinks, block_size=size, seed=seed)


@property_test
@given(changed=st.integers(0, 11), window=st.integers(1, 5), sinks=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_3_blocks_only_what_sees_it_changes(changed, window, sinks, seed):
    """Another key and value at one position change the queries that see it, and no others."""
    query, key, value = inputs(seed, leading=(), heads=4, length=12, keys=12)
    agrees(windowed, windowed64, query, key, value, window, sinks, block_size=4, seed=seed)
    noise = mx.where(mx.arange(12)[:, None] == changed, 3.0, 0.0)
    one = windowed(query, key, value, window, sinks, block_size=4)
    other = windowed(query, key + noise, value - noise, window, sinks, block_size=4)
    rows = [i for i in range(12) if not sees(i, changed, window, sinks)]
    case = f"float32, L 12, S 12, window {window}, sinks {sinks}, block_size 4, key {changed} changed, seed {seed}"
    kept = mx.array(rows, mx.int32)
    compare(other[:, kept], to_float64(one[:, kept]), mx.float32, 1e-5, case, query.size)


def test_task_3_blocks_refuse_more_queries_than_keys():
    query, key, value = normals(17)(4, 6, 3), normals(18)(2, 5, 3), normals(19)(2, 5, 3)
    with raises_value_error("float32, query 4 x 6 x 3, key 2 x 5 x 3, window 2", "6", "5"):
        mx.eval(blocks.windowed_attention(query, key, value, 2))


@pytest.mark.parametrize(("window", "sinks"), [(0, 0), (-1, 2), (2, -3)])
def test_task_3_blocks_refuse_what_is_none(window, sinks):
    query, key, value = inputs(20, leading=())
    case = f"float32, query 6 x 4 x 8, key 2 x 7 x 8, window {window}, sinks {sinks}"
    with raises_value_error(case, str(min(window, sinks))):
        mx.eval(blocks.windowed_attention(query, key, value, window, sinks))


# Task 4, the rolling cache


def can_forget(offset, count, window, sinks):
    """Whether so many junk tokens can be read and rewound."""
    return count == 1 or offset + count <= sinks + window


def parts_around(seed, length, window, sinks):
    """A text in parts: all at once, one by one, or as drawn, some with junk that is read and rewound."""
    generator, parts, at = np.random.default_rng(seed), [], 0
    while at < length:
        size = (length, 1, int(generator.integers(1, window + 3)), int(generator.integers(1, 4)))[seed % 4]
        if (
            (junk := min(length, int(generator.integers(0, 4))))
            and seed % 4 > 1
            and can_forget(at, junk, window, sinks)
        ):
            parts.append(-junk)
        parts.append(min(size, length - at))
        at += parts[-1]
    return Parts(parts)


def calls(key, value, window, sinks, parts):
    """Keys and values that each part gets from the learner's cache, with the part's first position."""
    kept, at = cache.RollingCache(window, sinks), 0
    for size in parts:
        if size < 0:
            mx.eval(kept.update_and_fetch(backwards(key)[:, :, :-size], backwards(value)[:, :, :-size]))
            kept.rewind(-size)
            continue
        keys, values = kept.update_and_fetch(key[:, :, at : at + size], value[:, :, at : at + size])
        yield at, size, keys, values
        at += size


def fetches(number):
    """The keys, 0, or the values, 1, of all calls, one behind the other; those of a single token sorted.

    Those of each call are held while later ones write.
    """

    def all_fetches(key, value, window, sinks, parts):
        found = []
        for _, size, *both in calls(key, value, window, sinks, parts):
            found.append((size, both[number]))
            mx.eval(both[number])
        return mx.concatenate([mx.sort(x, axis=2) if size == 1 else x for size, x in found], axis=2)

    return all_fetches


def fetches64(number):
    def by_formula(key, value, window, sinks, parts, *, r=exact):
        x, found, at = (key, value)[number], [], 0
        for size in parts:
            if size > 0:
                seen = [j for j in range(at + size) if j >= at or sees(at, j, window, sinks)]
                found.append(np.sort(x[:, :, seen], axis=2) if size == 1 else x[:, :, seen])
                at += size
        return r(np.concatenate(found, axis=2))

    return by_formula


key_fetches, value_fetches, key_fetches64, value_fetches64 = fetches(0), fetches(1), fetches64(0), fetches64(1)


def rolled(query, key, value, window, sinks, parts):
    """Attention of each part to what the cache gives, by MLX's operator, with the mask that the docstring names."""
    found = []
    for at, size, keys, values in calls(key, value, window, sinks, parts):
        mask = mx.array(window64(size, keys.shape[2], window, sinks).astype(np.float32)).astype(query.dtype)
        some = query[:, :, at : at + size]
        scale = query.shape[-1] ** -0.5
        found.append(mx.fast.scaled_dot_product_attention(some, keys, values, scale=scale, mask=mask))
        mx.eval(found[-1])
    return mx.concatenate(found, axis=2)


def rolled64(query, key, value, window, sinks, parts, *, r=exact):
    """The dense form with the mask, of the whole text at once."""
    return windowed64(query, key, value, window, sinks, r=r)


def rolls(window, sinks, parts, *, seed, batch=2, heads=3, dims=5, dtype=mx.float32):
    """What comes back, in every dtype; and in float32, what attention makes of it."""
    length, draw = sum(size for size in parts if size > 0), normals(seed, dtype)
    key, value = draw(batch, heads, length, dims), draw(batch, heads, length, dims)
    agrees(key_fetches, key_fetches64, key, value, window, sinks, Parts(parts), seed=seed)
    agrees(value_fetches, value_fetches64, key, value, window, sinks, Parts(parts), seed=seed)
    if dtype == mx.float32:
        query = draw(batch, 2 * heads, length, dims)
        agrees(rolled, rolled64, query, key, value, window, sinks, Parts(parts), seed=seed)


by_parts = pytest.mark.parametrize("parts", [(9,), (1,) * 9, (4, 5), (2, 1, 5, 1), (1, 7, 1), (-1, 4, -1, 5)], ids=str)
by_kept = pytest.mark.parametrize(
    ("window", "sinks"), [(3, 0), (3, 1), (2, 3), (1, 0), (1, 2), (4, 4), (20, 0), (20, 3)]
)


@by_dtype
@by_parts
def test_task_4_rolling_fetches(parts, dtype):
    rolls(3, 1, parts, seed=1, dtype=dtype)


@by_kept
@by_parts
def test_task_4_rolling_windows(parts, window, sinks):
    rolls(window, sinks, parts, seed=2)


@pytest.mark.parametrize("length", range(1, 14))
@pytest.mark.parametrize("sinks", [0, 2])
def test_task_4_rolling_lengths_around_the_window(length, sinks):
    """A window of 5: a prompt of every length, and then one token at a time."""
    rolls(5, sinks, (length, 1, 1, 1), seed=3)


@pytest.mark.parametrize("first", [1, 4, 5, 6, 11])
def test_task_4_rolling_a_prompt_after_a_prompt(first):
    """Both shorter or longer than a window of 5."""
    for second in (2, 4, 5, 6, 12):
        rolls(5, 1, (first, second, 1, 3), seed=4)


def test_task_4_rolling_many_rounds():
    rolls(4, 2, (1,) * 40, seed=5)


def test_task_4_rolling_sweep():
    for n in sweep(N=9, K=20, L=300, D=70, W=300):
        window, sinks = n.W, n.turn(0, 4, n.L, 1)
        parts = parts_around(n.seed, n.L, window, sinks)
        if len(parts) > 40:
            parts = Parts((n.L - 9, *[1] * 9))
        rolls(window, sinks, parts, seed=n.seed, batch=n.N, heads=n.K, dims=n.D, dtype=n.dtype)


@property_test
@given(
    length=st.integers(1, 16), window=st.integers(1, 7), sinks=st.integers(0, 4), ways=st.integers(0, 3),
    seed=st.integers(0, 20),
)  # fmt: skip
def test_task_4_rolling_any_split(length, window, sinks, ways, seed):
    """However a text is cut into calls, and whatever was read and rewound, it is the dense form with the mask."""
    rolls(window, sinks, parts_around(4 * seed + ways, length, window, sinks), seed=seed)


def test_task_4_rolling_counts():
    """offset is a plain number of all tokens that came, however many are kept; two caches count for themselves."""
    case = "window 3, sinks 1, calls of 2, 5, 1 and 1 tokens, then rewind(1) and rewind(0)"
    with noted(case):
        kept, other = cache.RollingCache(3, 1), cache.RollingCache(3)
        counts = [kept.offset]
        for length in (2, 5, 1, 1):
            kept.update_and_fetch(normals(6)(1, 2, length, 3), normals(7)(1, 2, length, 3))
            counts.append(kept.offset)
        for count in (1, 0):
            kept.rewind(count)
            counts.append(kept.offset)
        counts.append(other.offset)
    if wrong := next((x for x in counts if type(x) is not int), None):
        fail(Kind.TYPE, f"offset is {type_words(wrong)}, expected an int", case)
    if counts != (expected := [0, 2, 7, 8, 9, 8, 8, 0]):
        fail(Kind.VALUES, "offset is wrong", case, f"expected  {expected}", f"got       {counts}")


def test_task_4_rolling_turned_keys():
    """Queries and keys turned by MLX's RoPE at the cache's offset: forgotten tokens count as positions."""
    window, sinks, draw = 4, 1, normals(8)
    query, key, value = draw(1, 4, 12, 8), draw(1, 2, 12, 8), draw(1, 2, 12, 8)

    def turn(x, offset):
        return mx.fast.rope(x, 8, traditional=False, base=100.0, scale=1.0, offset=offset)

    case = "float32, query 1 x 4 x 12 x 8, window 4, sinks 1, parts 6 + 1 + 1 + 4, turned at the cache's offset, seed 8"
    found, at = [], 0
    with noted(case):
        kept = cache.RollingCache(window, sinks)
        for size in (6, 1, 1, 4):
            some, offset = slice(at, at + size), kept.offset
            keys, values = kept.update_and_fetch(turn(key[:, :, some], offset), value[:, :, some])
            mask = mx.array(window64(size, keys.shape[2], window, sinks).astype(np.float32))
            turned = turn(query[:, :, some], offset)
            found.append(mx.fast.scaled_dot_product_attention(turned, keys, values, scale=8**-0.5, mask=mask))
            at += size
    whole = (to_float64(x) for x in (turn(query, 0), turn(key, 0), value))
    compare(mx.concatenate(found, axis=2), windowed64(*whole, window, sinks), mx.float32, 1e-5, case, query.size)


def test_task_4_rolling_holds_no_more():
    """What a cache holds after 16 windows is what it holds after two."""
    window, sinks, token = 64, 4, normals(9)(1, 4, 1, 64)
    prompt = normals(10)(1, 4, 8 * window, 64)
    mx.eval(token, prompt)
    room = 2 * (sinks + window) * token.nbytes
    for words, size, count in (("one by one", 1, 16 * window), ("in prompts of 512", 8 * window, 2)):
        case = f"float32, key and value 1 x 4 x 1 x 64, window {window}, sinks {sinks}, {16 * window} tokens {words}"
        with noted(case):
            mx.synchronize()
            before = mx.get_active_memory()
            kept = cache.RollingCache(window, sinks)
            for _ in range(count):
                mx.eval(kept.update_and_fetch(*[token if size == 1 else prompt] * 2))
            kept.update_and_fetch(token, token)[0].tolist()
            mx.synchronize()
            held = mx.get_active_memory() - before
        if held > 2 * room:
            headline = f"the cache holds {held // 1024:,} KiB, as if it forgot nothing"
            fail(
                Kind.VALUES,
                headline,
                case,
                f"at most   {2 * room // 1024:,} KiB: twice what sinks + window tokens take",
            )


def test_task_4_rolling_leaves_the_caller_s_arrays():
    """The first tokens fill the room; others take their places later, not in the caller's own array."""
    given = normals(11)(2, 3, 4, 5), normals(12)(2, 3, 4, 5)
    before = [to_float64(x) for x in given]
    case = "float32, key 2 x 3 x 4 x 5, window 3, sinks 1, then five single tokens, seed 11"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(*given))
        for _ in range(5):
            mx.eval(kept.update_and_fetch(mx.ones((2, 3, 1, 5)), mx.ones((2, 3, 1, 5))))
    for name, x, numbers in zip(("key", "value"), given, before, strict=True):
        if not np.array_equal(to_float64(x), numbers):
            line = "x[...] = changes an MLX array in place, for everyone who holds it"
            fail(Kind.INPUT_CHANGED, f"the caller's `{name}` of an earlier call was changed", case, line)


OTHERS = {
    "another batch": (1, 3, 1, 4),
    "other heads": (2, 1, 1, 4),
    "another D": (2, 3, 1, 1),
    "no batch": (3, 1, 4),
}


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS.keys())
def test_task_4_rolling_refuses_other_shapes(shape):
    """Also such as would broadcast; afterwards it goes on as if nothing had been."""
    key, value = normals(13)(2, 3, 6, 4), normals(14)(2, 3, 6, 4)
    case = f"float32, key 2 x 3 x 5 x 4, window 3, sinks 1, then key {' x '.join(map(str, shape))}"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(key[:, :, :5], value[:, :, :5]))
    with raises_value_error(case):
        mx.eval(kept.update_and_fetch(mx.ones(shape), mx.ones(shape)))
    with noted(case):
        keys, values = kept.update_and_fetch(key[:, :, 5:], value[:, :, 5:])
    for name, actual, x in (("keys", keys, key), ("values", values, value)):
        expected = np.sort(to_float64(x)[:, :, [0, 3, 4, 5]], axis=2)
        compare(
            mx.sort(actual, axis=2), expected, mx.float32, 0.0, f"the next {name} that fit, sorted; {case}", key.size
        )


def test_task_4_rolling_refuses_another_dtype():
    kept, key = cache.RollingCache(3, 1), normals(15)(2, 3, 2, 4)
    mx.eval(kept.update_and_fetch(key, key))
    with raises_value_error("float32, key 2 x 3 x 2 x 4, then the same in float16"):
        mx.eval(kept.update_and_fetch(key.astype(mx.float16), key.astype(mx.float16)))


@pytest.mark.parametrize("shape", [(2, 3, 1, 4), (1, 3, 2, 4), (2, 3, 2, 1)], ids=str)
def test_task_4_rolling_refuses_values_that_differ_from_keys(shape):
    with raises_value_error(f"float32, key 2 x 3 x 2 x 4, value {' x '.join(map(str, shape))}"):
        mx.eval(cache.RollingCache(3, 1).update_and_fetch(mx.ones((2, 3, 2, 4)), mx.ones(shape)))


# A window of 3 with one sink: what was read, what is asked to be forgotten, and how much could be.
REWINDS = [((4,), 5, 4), ((2,), -1, 2), ((5,), 2, 1), ((1,) * 9, 2, 1), ((9, 1), 10, 1), ((9,), -2, 1)]


@pytest.mark.parametrize(("parts", "count", "most"), REWINDS, ids=str)
def test_task_4_rolling_refuses_to_rewind_too_far(parts, count, most):
    case = f"float32, window 3, sinks 1, calls of {Parts(parts)} tokens, rewind({count})"
    with noted(case):
        kept, total = cache.RollingCache(3, 1), sum(parts)
        for size in parts:
            mx.eval(kept.update_and_fetch(mx.ones((1, 2, size, 3)), mx.ones((1, 2, size, 3))))
    with raises_value_error(case, str(abs(count)), str(most)):
        kept.rewind(count)
    if kept.offset != total:
        fail(Kind.VALUES, "a refused rewind has changed offset", case, f"expected  {total}", f"got       {kept.offset}")


def test_task_4_rolling_rewinds_once():
    """What was written over is gone: one token can be forgotten, then none, and after the next one again one."""
    key = normals(16)(1, 2, 9, 3)
    case = "float32, window 3, sinks 1, 7 tokens, rewind(1) and rewind(1) again"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(key[:, :, :7], key[:, :, :7]))
        kept.rewind(1)
    with raises_value_error(case, "1", "0"):
        kept.rewind(1)
    with noted(case + ", then token 6 and rewind(1)"):
        mx.eval(kept.update_and_fetch(key[:, :, 6:7], key[:, :, 6:7]))
        kept.rewind(1)
        keys, _ = kept.update_and_fetch(key[:, :, 6:9], key[:, :, 6:9])
    expected = to_float64(key)[:, :, [0, 4, 5, 6, 7, 8]]
    compare(keys, expected, mx.float32, 0.0, f"{case}, then token 6, rewind(1), tokens 6 to 8", key.size)


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_task_4_rolling_rewinds_all_that_fits(count):
    """Nothing has been written over as long as all have room: any number can be forgotten."""
    key, more = normals(17)(2, 3, 4, 5), normals(18)(2, 3, 4, 5)
    case = f"float32, key 2 x 3 x 4 x 5, window 3, sinks 1, rewind({count}), then 4 tokens, seed 17"
    with noted(case):
        kept = cache.RollingCache(3, 1)
        mx.eval(kept.update_and_fetch(key, key))
        kept.rewind(count)
        keys, _ = kept.update_and_fetch(more, more)
    before = 4 - count
    seen = [j for j in range(before) if sees(before, j, 3, 1)]
    expected = np.concatenate([to_float64(key)[:, :, seen], to_float64(more)], axis=2)
    compare(keys, expected, mx.float32, 0.0, case, key.size)


@pytest.mark.parametrize(("window", "sinks"), [(0, 0), (-1, 2), (2, -3)])
def test_task_4_rolling_refuses_what_is_none(window, sinks):
    with raises_value_error(f"RollingCache({window}, {sinks})", str(min(window, sinks))):
        cache.RollingCache(window, sinks)
