"""The loader of checkpoint folders: every form that it reads."""

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkpoint_folders import CHAT_TEMPLATE, ROWS, quantized, small
from tests.week1.reference_model import QWEN3, QWEN25, ReferenceModel

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.testkit.rounding import to_float64

IM_END = 261
TABLE, HEAD = "model.embed_tokens.weight", "lm_head.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"


def same(weights, model):
    return weights.keys() == model.weights.keys() and all(
        w.dtype == model.weights[name].dtype and mx.array_equal(w, model.weights[name]) for name, w in weights.items()
    )


@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_weights_are_those_of_the_files(checkpoint, base, dtype, shards, tied):
    model = small(base, dtype=dtype, tie_word_embeddings=tied)
    loaded = load_checkpoint(checkpoint(model, shards=shards))
    assert loaded.config == model.config
    assert same(loaded.weights, model)


@pytest.mark.parametrize("wanted", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_weights_are_brought_to_the_dtype_that_is_asked_for(checkpoint, wanted):
    model = small()
    loaded = load_checkpoint(checkpoint(model), wanted)
    assert same(loaded.weights, ReferenceModel(model.config, {n: w.astype(wanted) for n, w in model.weights.items()}))


def test_what_the_model_does_not_need_is_left_aside(checkpoint):
    model = small(tie_word_embeddings=True)
    extra = {HEAD: mx.zeros((2, 2)), "model.layers.0.self_attn.rotary_emb.inv_freq": mx.zeros(3, mx.int32)}
    assert same(load_checkpoint(checkpoint(model.with_weights(**extra))).weights, model)


def test_other_peoples_hidden_files_are_left_aside(checkpoint):
    folder = checkpoint(small())
    (folder / "._model.safetensors").write_bytes(b"macOS puts these on foreign disks")
    load_checkpoint(folder)


@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_quantized_weights_are_dequantized(checkpoint, base, bits, dtype):
    """The error is at most half a step of each group, and what rounding to the dtype adds."""
    model = small(base, dtype=dtype)
    weights = load_checkpoint(checkpoint(quantized(model, 32, bits))).weights
    assert weights.keys() == model.weights.keys()
    for name, weight in model.weights.items():
        assert (weights[name].dtype, weights[name].shape) == (dtype, weight.shape)
        true = to_float64(weight)
        spread = np.ptp(true.reshape(-1, 32), axis=1).max() if weight.ndim == 2 else 0
        rounding = 0 if dtype == mx.float32 else 2**-6 * np.abs(true).max()
        assert np.abs(to_float64(weights[name]) - true).max() <= spread / (2**bits - 1) + rounding


def test_a_layer_may_be_quantized_in_a_way_of_its_own(checkpoint):
    """As mlx-lm writes mixed recipes: a table for a layer beside the table for all."""
    model, finer = small(), {"group_size": 64, "bits": 8}
    folder = checkpoint(
        quantized(model, 32, 4, **{"embed_tokens": finer, "0.mlp.up_proj": {"group_size": 32, "bits": 8}})
    )
    weights = load_checkpoint(folder).weights
    error = {name: np.abs(to_float64(weights[name] - model.weights[name])).max() for name in weights}
    assert error[TABLE] < 0.05
    assert error["model.layers.0.mlp.up_proj.weight"] < error["model.layers.1.mlp.up_proj.weight"] / 8


def test_quantized_weights_go_to_float32_without_a_detour(checkpoint):
    """Their scales' bfloat16 would round what float32 can hold."""
    packed = quantized(small(dtype=mx.bfloat16), 32, 8)
    weight = load_checkpoint(checkpoint(packed), mx.float32).weights[QUERY]
    layer = QUERY.removesuffix(".weight")
    scales, biases = (to_float64(packed.weights[f"{layer}.{part}"]) for part in ("scales", "biases"))
    integers = np.array(packed.weights[QUERY]).view(np.uint8).reshape(scales.shape[0], -1)
    expected = integers * np.repeat(scales, 32, axis=1) + np.repeat(biases, 32, axis=1)
    np.testing.assert_allclose(to_float64(weight), expected, rtol=0, atol=1e-6)


def test_loading_reads_no_weight_yet(checkpoint):
    folder = checkpoint(quantized(small(vocab_size=60_000), 32, 8))
    before = mx.get_active_memory()
    loaded = load_checkpoint(folder, mx.float32)
    assert mx.get_active_memory() - before < (folder / "model.safetensors").stat().st_size / 10
    assert loaded.weights[TABLE].shape == (60_000, 64)


@pytest.mark.parametrize(
    ("settings", "template"),
    [
        (None, None),
        ({}, None),
        ({"chat_template": CHAT_TEMPLATE}, CHAT_TEMPLATE),
        ({"chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]}, "y"),
        ({"chat_template": [{"name": "tool_use", "template": "x"}]}, None),
        ({"chat_template": None}, None),
    ],
    ids=["no file", "no template", "text", "list", "list without default", "null"],
)
def test_the_chat_template(checkpoint, settings, template):
    assert load_checkpoint(checkpoint(small(), tokenizer_config=settings)).chat_template == template


def test_a_template_in_a_file_of_its_own_comes_first(checkpoint):
    folder = checkpoint(small(), tokenizer_config={"chat_template": "old"})
    (folder / "chat_template.jinja").write_text("{# é #}new\n", encoding="utf-8")
    assert load_checkpoint(folder).chat_template == "{# é #}new\n"


@pytest.mark.parametrize(
    ("config", "generation", "eos"),
    [
        ({"eos_token_id": 7}, None, (7,)),
        ({"eos_token_id": [7, 8]}, {}, (7, 8)),
        ({"eos_token_id": 7}, {"eos_token_id": [9, 7]}, (9, 7)),
        ({"eos_token_id": 7}, {"eos_token_id": 0}, (0,)),
        ({"eos_token_id": 7}, {"eos_token_id": None}, (7,)),
        ({"eos_token_id": None}, {}, (IM_END,)),
        ({}, None, (IM_END,)),
    ],
)
def test_what_ends_a_text(checkpoint, config, generation, eos):
    """generation_config.json, else config.json, else the tokenizer's own: as mlx-lm has it."""
    settings = {
        "eos_token": {"content": "<|im_end|>", "lstrip": False},
        "pad_token": "<|endoftext|>",
        "bos_token": None,
    }
    folder = checkpoint(small(), config=config, generation=generation, tokenizer_config=settings)
    loaded = load_checkpoint(folder)
    assert loaded.eos_ids == eos
    assert loaded.special_tokens == {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


def test_nothing_may_end_a_text(checkpoint):
    assert load_checkpoint(checkpoint(small())).eos_ids == ()


def test_marks_are_hidden_and_added_words_are_not(checkpoint):
    """Hidden too are the rows that fill up the embedding; 262 is <think>."""
    assert load_checkpoint(checkpoint(small())).hidden_ids == {259, 260, IM_END, *range(263, ROWS)}


@pytest.mark.parametrize(
    ("generation", "sampling"),
    [
        (None, {}),
        ({"temperature": 0.6, "top_k": 20, "top_p": None, "pad_token_id": 3}, {"temp": 0.6, "top_k": 20}),
        ({"temperature": 0.6, "do_sample": False}, {"temp": 0}),
        ({"repetition_penalty": 1.05, "do_sample": True, "min_p": 0}, {"repetition_penalty": 1.05, "min_p": 0}),
    ],
)
def test_how_the_model_wants_to_be_sampled(checkpoint, generation, sampling):
    assert load_checkpoint(checkpoint(small(), generation=generation)).sampling == sampling


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_quantized_weights_may_stay_packed(checkpoint, bits, dtype):
    """Words, scales and biases as they are stored, whatever dtype the others are brought to."""
    packed = quantized(small(dtype=dtype), 32, bits)
    weights = load_checkpoint(checkpoint(packed), mx.float32, packed=True).weights
    assert weights.keys() == packed.weights.keys()
    for name, stored in packed.weights.items():
        of_matrix = stored.ndim == 2
        assert weights[name].dtype == (stored.dtype if of_matrix else mx.float32)
        assert mx.array_equal(weights[name], stored)


def test_weights_that_are_not_quantized_stay_as_they_are(checkpoint):
    assert same(load_checkpoint(checkpoint(small()), packed=True).weights, small())


@pytest.mark.parametrize(
    ("bits", "own", "seen"),
    [
        (3, {}, "3-bit"),
        (4, {"embed_tokens": {"group_size": 64, "bits": 8}}, "4-bit and 8-bit"),
        (4, {"embed_tokens": {"group_size": 64, "bits": 4}}, "4-bit"),
    ],
)
def test_weights_that_the_layers_cannot_take_are_refused_with_a_stage_that_can(checkpoint, bits, own, seen):
    folder = checkpoint(quantized(small(), 32, bits, **own))
    load_checkpoint(folder)
    wanted = "this stage supports 4 or 8 bits and one group size for all; --stage kv-cache supports all"
    with pytest.raises(UsageError) as refused:
        load_checkpoint(folder, packed=True)
    assert str(refused.value) == f"{folder} has {seen} weights, but {wanted}"
