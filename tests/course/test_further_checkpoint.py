"""Checkpoints that ask for more than a stage has: which are told apart, read, and refused in one line."""

import json

import mlx.core as mx
import pytest
from tests.course.checkpoint_folders import put_json, quantized, refusal, small
from tests.course.further_models import CHANGES, EXPERTS, LLAMA3, WINDOW, further, stacked

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint, read_config
from tiny_llm_course.checkpoints.features import unsupported_features, with_window
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.further.config import FurtherConfig  # noqa: E402

MOE = "experts in every second layer"


def change(file, **entries):
    """Change entries of a JSON file; None removes one."""
    table = json.loads(file.read_text()) | entries
    put_json(file, {name: value for name, value in table.items() if value is not None})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("qwen3, windows from layer 1 on", "a sliding window"),
        ("mistral without windows", ""),
        ("mistral", "a sliding window"),
        ("qwen3, linear", "RoPE scaling of type 'linear'"),
        ("qwen3, yarn in new words", "RoPE scaling of type 'yarn'"),
        ("experts", "a mixture of experts"),
    ],
)
def test_what_it_asks_for_is_said(checkpoint, name, words):
    assert unsupported_features(read_config(checkpoint(further(name)))) == words


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 0},
        {"sliding_window": 5},
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
        {"use_sliding_window": True, "sliding_window": 5},  # the first 28 layers are global
        {"use_sliding_window": True, "sliding_window": None},
        {"layer_types": ["full_attention", "full_attention"], "use_sliding_window": True, "sliding_window": 5},
        {"rope_scaling": {"rope_type": "default"}},
    ],
    ids=str,
)
def test_what_week_1_runs_stays_with_the_stages(checkpoint, entries):
    folder = checkpoint(small())
    change(folder / "config.json", **entries)
    assert unsupported_features(read_config(folder)) == ""


@pytest.mark.parametrize("name", CHANGES)
def test_the_harness_and_the_package_read_the_same(checkpoint, name):
    config = read_config(checkpoint(further(name)))
    read = FurtherConfig.from_dict(config)
    assert read.scaled == ("factor" in str(config))
    assert any(read.windows) == (config["sliding_window"] is not None if "sliding_window" in config else False)
    stored = load_checkpoint(checkpoint(further(name))).weights
    sparse = {int(key.split(".")[2]) for key in stored if ".switch_mlp." in key}
    assert sparse == (read.experts.layers if read.experts else set())


@pytest.mark.parametrize("form", [lambda model: model, stacked], ids=["one by one", "stacked"])
@pytest.mark.parametrize("shards", [1, 3])
def test_experts_come_stacked(checkpoint, form, shards):
    model = further(MOE)
    weights = load_checkpoint(checkpoint(form(model), shards=shards)).weights
    expected = stacked(model).weights
    assert weights.keys() == expected.keys()
    assert all(mx.array_equal(weights[name], expected[name]) for name in expected)


def test_quantized_experts_are_dequantized(checkpoint):
    """As mlx-lm writes them: stacked, and the router finer than the rest."""
    model = stacked(further(MOE, hidden_size=64, moe_intermediate_size=64))
    folder = checkpoint(quantized(model, 32, 4, **{"mlp.gate": {"group_size": 64, "bits": 8}}))
    weights = load_checkpoint(folder, mx.float32).weights
    for name, weight in model.weights.items():
        if weight.ndim > 1:
            size, bits = (64, 8) if name.endswith("mlp.gate.weight") else (32, 4)
            weight = mx.dequantize(*mx.quantize(weight, group_size=size, bits=bits), group_size=size, bits=bits)
        assert mx.allclose(weights[name], weight, atol=1e-5), name


@pytest.mark.parametrize(
    ("name", "entries", "line"),
    [
        (
            "qwen3, yarn",
            {"rope_scaling": {"rope_type": "longrope", "factor": 8.0}},
            "has rope_scaling of type 'longrope', expected 'default', 'linear', 'dynamic', 'yarn', 'llama3'",
        ),
        (
            "qwen3, yarn",
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 16}},
            "has rope_scaling of type 'llama3' with low_freq_factor = None, expected a number",
        ),
        (
            "qwen3, yarn",
            {"rope_scaling": {**LLAMA3, "high_freq_factor": 1.0}},
            "has low_freq_factor = 1.0, expected less than high_freq_factor",
        ),
        ("qwen3, yarn", {"rope_scaling": "yarn"}, "has rope_scaling of type 'yarn' with factor = None, expected a num"),
        (
            "qwen3, linear",
            {"rope_scaling": {"rope_type": "linear", "factor": 0.5}},
            "has rope_scaling of type 'linear' with factor = 0.5, expected a number of at least 1",
        ),
        (
            "qwen3, yarn",
            {"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": "32"}},
            "has rope_scaling of type 'yarn' with beta_fast = '32', expected a number of at least 0",
        ),
        (
            "qwen3, yarn",
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "has a different RoPE for each layer type, but this engine has one for all layers",
        ),
        (
            "qwen3, linear",
            {"partial_rotary_factor": 0.5},
            "has partial_rotary_factor = 0.5, but this engine's RoPE rotates whole heads only",
        ),
        (
            "qwen2.5, dynamic",
            {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0},
            "has RoPE scaling of type 'dynamic' and a sliding window; no engine supports both",
        ),
        (
            "qwen3, windows from layer 1 on",
            {"sliding_window": 0},
            "has sliding_window = 0, expected a whole number above 0",
        ),
        ("qwen3, windows from layer 1 on", {"max_window_layers": "1"}, "has max_window_layers = '1', expected a whole"),
        (
            "qwen3, windows by layer types",
            {"layer_types": ["full_attention"]},
            "has 1 layer_types, expected one for each of 3 layers",
        ),
        (
            "qwen3, windows by layer types",
            {"layer_types": ["chunked_attention"] * 3},
            "has a layer of type 'chunked_attention', expected 'full_attention', 'sliding_attention'",
        ),
        (
            "qwen3, windows by layer types",
            {"use_sliding_window": False},
            "has layers of type 'sliding_attention', but use_sliding_window is not true",
        ),
        ("mistral", {"attention_sinks": -1}, "has attention_sinks = -1, expected a whole number of at least 0"),
        ("mistral", {"attention_bias": True}, "has attention_bias true, but this engine's Mistral has no biases"),
        (MOE, {"num_experts": None}, "lacks num_experts"),
        (MOE, {"num_experts_per_tok": 8}, "has num_experts_per_tok = 8, expected at most its 7 experts"),
        (MOE, {"moe_intermediate_size": 0.5}, "has moe_intermediate_size = 0.5, expected a whole number above 0"),
        (MOE, {"mlp_only_layers": [None]}, "has mlp_only_layers = [None], expected a list of layer numbers"),
    ],
    ids=str,
)
def test_a_config_that_does_not_suit_is_one_line(checkpoint, name, entries, line):
    folder = checkpoint(further(name))
    change(folder / "config.json", **entries)
    assert refusal(folder).startswith(f"config.json {line}")


def test_experts_that_the_files_do_not_hold_are_one_line(checkpoint):
    model = further(MOE)
    name = "model.layers.1.mlp.experts.6.up_proj.weight"
    assert refusal(checkpoint(model.without(name))) == f"FOLDER has no weight {name}, expected one of shape (48, 64)"
    folder = checkpoint(stacked(model))
    change(folder / "config.json", num_experts=10**9)
    assert "mlp.gate.weight has shape (7, 64), but config.json implies (1000000000, 64)" in refusal(folder)


def test_a_window_and_sinks_that_are_typed_take_the_place_of_the_files(checkpoint):
    folder = checkpoint(small())
    file, config = folder / "config.json", read_config(folder)
    assert FurtherConfig.from_dict(with_window(file, config, 8, None)).windows == (8, 8)
    assert FurtherConfig.from_dict(with_window(file, config, 8, 4)).sinks == 4
    windows = small(**WINDOW).config
    assert FurtherConfig.from_dict(with_window(file, windows, None, 2)).windows == (None, 5, 5)
    with pytest.raises(UsageError, match=r"config\.json has no sliding window, so sinks have no effect\."):
        with_window(file, config, None, 4)
    moe = {**config, "model_type": "qwen3_moe", **EXPERTS}
    assert FurtherConfig.from_dict(with_window(file, moe, 3, None)).windows == (3, 3)


@pytest.mark.parametrize(
    ("entries", "longest"),
    [
        ({}, 96),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 384),
        ({"rope_scaling": {"type": "dynamic", "factor": 2}}, 192),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}}, 96),
        ({"rope_scaling": {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 24}}, 192),
        ({"rope_scaling": {**LLAMA3, "factor": 32.0}}, 96),  # Llama 3.2 states the scaled length, and a larger factor
    ],
    ids=str,
)
def test_the_longest_text_is_that_of_the_scaled_rope(entries, longest):
    assert FurtherConfig.from_dict({**small().config, **entries}).max_position_embeddings == longest
