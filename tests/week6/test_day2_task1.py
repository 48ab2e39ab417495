"""Task 6.2.1, the parts of the weights, against a count of heads, columns and tokens one by one."""

import dataclasses

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, QWEN25, random_model
from tests.week6.sharded import (
    BIASES,
    DIVISIBLE,
    ROW_PARALLEL,
    SHARED,
    WIDE,
    columns,
    features,
    numbers,
    own_config,
    packed_model,
    part,
    words,
)

from tiny_llm.config import ModelConfig
from tiny_llm.tensor_parallel import shards
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

by_group = pytest.mark.parametrize(("config", "size"), DIVISIBLE, ids=lambda v: v if isinstance(v, int) else "")
NAMES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head")
PACKED = {**SHARED, "num_attention_heads": 8, "head_dim": 16, "hidden_size": 64, "intermediate_size": 192}


def partition(config, rank, size):
    return shards.Partition(ModelConfig.from_dict(config), rank, size)


def check_parts(config, size, weights, case):
    """Compare each rank's part of each weight, bit for bit."""
    for rank in range(size):
        with noted(case):
            found = partition(config, rank, size).take(dict(weights))
            mx.eval(list(found.values()))
        fail_if_different(f"rank {rank} has other names", sorted(weights), sorted(found), case)
        for name, w in weights.items():
            expected, actual = part(name, w, config, rank, size), found[name]
            if actual.shape != expected.shape:
                lines = (f"expected  {shape_words(expected.shape)}", f"got       {shape_words(actual.shape)}")
                fail(Kind.SHAPE, f"rank {rank}'s part of {name} has the wrong shape", case, *lines)
            if actual.dtype != w.dtype:
                lines = (f"expected  {dtype_word(w.dtype)}", f"got       {dtype_word(actual.dtype)}")
                fail(Kind.DTYPE, f"rank {rank}'s part of {name} has the wrong dtype", case, *lines)
            if not np.array_equal(numbers(expected), numbers(actual)):
                fail(Kind.VALUES, f"rank {rank} has another part of {name}", case)


@by_group
def test_task_1_shards_of_a_model(config, size):
    check_parts(config, size, random_model(config, 1).weights, words(config, size))


@by_dtype
def test_task_1_shards_keep_the_dtype(dtype):
    check_parts(WIDE, 2, random_model(WIDE, 2, dtype).weights, f"{dtype_word(dtype)}, {words(WIDE, 2)}")


@by_group
def test_task_1_shards_config(config, size):
    whole = ModelConfig.from_dict(config)
    for rank in range(size):
        case = f"rank {rank} of {words(config, size)}"
        with noted(case):
            own = shards.Partition(whole, rank, size)
        expected, actual = (dataclasses.asdict(each) for each in (own_config(whole, rank, size), own.config))
        fail_if_different("the rank's config is wrong", expected, actual, case)
        tokens = features(config, rank, size)["lm_head"][0]
        fail_if_different("the vocabulary is wrong", tokens, list(own.vocabulary), case)


@by_group
def test_task_1_shards_cut(config, size):
    """Weights, biases, scales and groups' biases, as rows or columns."""
    for rank in range(size):
        for layer in NAMES:
            own, total = features(config, rank, size)[layer]
            for kind in ("weight", "bias", "scales", "biases"):
                name = f"{layer}.{kind}" if layer == "lm_head" else f"model.layers.1.mlp.{layer}.{kind}"
                shape = (7, total) if layer in ROW_PARALLEL and kind != "bias" else (total, 5)
                shape = shape[:1] if kind == "bias" else shape
                case = f"cut({name!r}, {shape}), rank {rank} of {words(config, size)}"
                with noted(case):
                    cut = partition(config, rank, size).cut(name, shape)
                whole = layer in ROW_PARALLEL and kind == "bias"
                expected = None if whole else (int(layer in ROW_PARALLEL), own[0], own[-1] + 1)
                fail_if_different("the cut is wrong", expected, cut if cut is None else tuple(cut), case)


@pytest.mark.parametrize("name", ["self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "norm"])
def test_task_1_shards_norms_are_whole(name):
    name = f"model.{name}.weight" if name == "norm" else f"model.layers.3.{name}.weight"
    for rank in range(4):
        case = f"cut({name!r}, (60,)), rank {rank} of {words(WIDE, 4)}"
        with noted(case):
            cut = partition(WIDE, rank, 4).cut(name, (60,))
        fail_if_different("a norm is cut", None, cut, case)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("group_size", "size"), [(32, 1), (32, 2), (64, 1), (32, 4)])
def test_task_1_shards_quantized(bits, group_size, size):
    config = {**PACKED, "intermediate_size": 256} if size == 4 else PACKED
    model = packed_model(config, 3, bits, group_size)
    check_parts(config, size, model.weights, f"{bits} bits, groups of {group_size}; {words(config, size)}")


@pytest.mark.parametrize("bits", [4, 8])
def test_task_1_shards_quantized_rows_stay_equal(bits):
    """Dequantized, a rank's packed columns are these columns of the dequantized matrix."""
    w = mx.random.normal((6, 192), key=mx.random.key(4))
    kinds = ("weight", "scales", "biases")
    whole = dict(zip((f"mlp.down_proj.{kind}" for kind in kinds), mx.quantize(w, 32, bits), strict=True))
    for rank in range(2):
        case = f"down_proj 6 x 192 in {bits} bits, groups of 32, rank {rank} of {words(PACKED, 2)}"
        with noted(case):
            found = partition(PACKED, rank, 2).take(whole)
            actual = mx.dequantize(*(found[name] for name in whole), 32, bits)
        expected = mx.dequantize(*whole.values(), 32, bits)[
            :, mx.array(columns(*features(PACKED, rank, 2)["down_proj"], 192))
        ]
        if actual.shape != expected.shape or not mx.array_equal(actual, expected).item():
            fail(Kind.VALUES, "the packed columns hold other inputs", case)


@pytest.mark.parametrize(
    ("layer", "shape"), [("down_proj.scales", (9, 3)), ("down_proj.biases", (9, 3)), ("o_proj.weight", (9, 1))], ids=str
)
def test_task_1_shards_refuses_part_of_a_group(layer, shape):
    """192 inputs in 3 groups, and 128 in one word, of which 2 ranks cannot have half."""
    for rank in range(2):
        with raises_value_error(f"cut({layer!r}, {shape}), rank {rank} of {words(PACKED, 2)}", layer):
            partition(PACKED, rank, 2).cut(f"model.layers.0.x.{layer}", shape)


@pytest.mark.parametrize(
    ("changes", "size", "number"),
    [
        ({"num_attention_heads": 6, "num_key_value_heads": 2}, 4, 6),
        ({"intermediate_size": 27}, 2, 27),
        ({"num_key_value_heads": 3}, 2, 3),
        ({"num_key_value_heads": 4}, 6, 4),
        ({"num_attention_heads": 2, "num_key_value_heads": 2}, 4, 2),
    ],
    ids=str,
)
def test_task_1_shards_refuses_what_does_not_divide(changes, size, number):
    config = {**WIDE, "intermediate_size": 72, **changes}
    messages = []
    for rank in range(size):
        with raises_value_error(f"rank {rank} of {words(config, size)}", str(number), str(size)):
            try:
                partition(config, rank, size)
            except ValueError as error:
                messages.append(str(error))
                raise
    for rank, message in enumerate(messages):
        fail_if_different(f"rank {rank}'s error is not rank 0's", messages[0], message, words(config, size))


@property_test
@given(size=st.integers(1, 6), kv=st.integers(1, 5), repeats=st.integers(1, 4), vocabulary=st.integers(12, 40))
def test_task_1_shards_every_query_head_finds_its_own(size, kv, repeats, vocabulary):
    """Together the ranks have all rows, and query head h uses key-value head h * H_kv // H."""
    heads = kv * repeats * size
    config = {**QWEN3, "num_attention_heads": heads, "num_key_value_heads": kv, "intermediate_size": 5 * size}
    config |= {"head_dim": 2, "vocab_size": vocabulary}
    case = words(config, size)
    if kv % size and size % kv:
        for rank in range(size):
            with raises_value_error(case, str(kv), str(size)):
                partition(config, rank, size)
        return
    rows = {layer: mx.arange(total)[:, None] for layer, (_, total) in features(config, 0, size).items()}
    weights = {f"model.layers.0.self_attn.{layer}.weight": rows[layer] for layer in ("q_proj", "k_proj")}
    weights["lm_head.weight"] = rows["lm_head"]
    queries, tokens = [], []
    for rank in range(size):
        with noted(case):
            own = partition(config, rank, size)
            query, key, head = (np.array(w)[:, 0] for w in own.take(weights).values())
        queries += query.tolist()
        tokens += head.tolist()
        mine, used = query[::2] // 2, key[::2] // 2
        expected = (mine * kv // heads).tolist()
        actual = np.repeat(used, len(mine) // len(used))[: len(mine)].tolist()
        fail_if_different(f"the key-value heads of rank {rank}'s query heads are wrong", expected, actual, case)
    fail_if_different("the query heads of all ranks are wrong", list(range(2 * heads)), queries, case)
    fail_if_different("the tokens of all ranks are wrong", list(range(vocabulary)), tokens, case)


def test_task_1_shards_unchanged():
    weights = random_model(BIASES, 5).weights
    before = dict(weights)
    case = f"take, {words(BIASES, 3)}"
    with noted(case):
        partition(BIASES, 1, 3).take(weights)
    if weights != before:
        fail(Kind.INPUT_CHANGED, "the caller's `weights` was changed", case, "build a new dict")


def test_task_1_shards_sweep():
    """Models of many sizes, in groups of many sizes."""
    for n in sizes(D=40, I=130, V=2100):
        size = n.turn(1, 2, 3, 4)
        kv = n.turn(1, size, 2 * size)
        changes = {"num_attention_heads": 2 * kv * size, "num_key_value_heads": kv, "head_dim": 2 * n.D}
        config = {**n.turn(QWEN3, QWEN25), **changes, "intermediate_size": n.I * size, "vocab_size": n.V + size}
        config |= {"hidden_size": 3, "num_hidden_layers": 1}
        check_parts(config, size, random_model(config, n.seed).weights, words(config, size))
