"""Task 4.3.2, which layers are local, checked against transformers' configs."""

import copy
import json

import numpy as np
import pytest
from tests.week4.formulas_day3 import windows64

from tiny_llm.local_attention import layers
from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again


def windows_agree(config, expected=None):
    """Check a list of windows, in order, each an int or None; the config must not change."""
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
        fail(Kind.VALUES, told, case, *lines, f"both from layer {begin} on", size=len(wanted))


# `...` stands for a key that the config lacks
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
    """max_window_layers 4 of 6: the name is misleading, the numbers count."""
    windows_agree(CONFIGS["qwen3, on"], [None, None, None, None, 4096, 4096])


def test_task_2_layers_the_last_of_each_six_is_global():
    windows_agree(CONFIGS["gemma3"], [*[512] * 5, None, *[512] * 5, None, 512])


def test_task_2_layers_layer_types_win():
    words = ["full_attention", "sliding_attention", "sliding_attention"]
    for kind, extra in [("qwen3", {"use_sliding_window": True}), ("gemma3_text", {}), ("mistral", {}), ("phi9", {})]:
        config = {"model_type": kind, "num_hidden_layers": 3, "sliding_window": 7, "layer_types": words, **extra}
        windows_agree(config, [None, 7, 7])


def test_task_2_layers_few_keys():
    """A config of a model without windows, one without a model_type, layer_types that are all full."""
    windows_agree({"model_type": "llama", "num_hidden_layers": 2}, [None, None])
    windows_agree({"num_hidden_layers": 2, "sliding_window": 5}, [5, 5])
    windows_agree({"num_hidden_layers": 4, "sliding_window": 5, "sliding_window_pattern": 2}, [5, None, 5, None])
    windows_agree({"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}, [None, None])
    windows_agree({**QWEN, "use_sliding_window": False, "layer_types": ["full_attention"] * 6}, [None] * 6)
    for kind in ("qwen2", "qwen3", "qwen3_moe"):  # off, because nothing says that it is on
        windows_agree({**QWEN, "model_type": kind, "use_sliding_window": ..., "max_window_layers": 0}, [None] * 6)


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


@pytest.mark.parametrize("switch", [{}, {"use_sliding_window": False}], ids=["on", "off"])
@pytest.mark.parametrize("window", [0, -4, "4096", 12.5, True])
def test_task_2_layers_refuses_invalid_windows(window, switch):
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": window, **switch}
    with raises_value_error(f"config {config}", "sliding_window"):
        layers.layer_windows(config)


@pytest.mark.parametrize(
    "rest",
    [
        {"layer_types": ["full_attention"] * 2},
        {"model_type": "qwen3"},
        {"model_type": "qwen2", "use_sliding_window": True},
        {"model_type": "gemma2"},
    ],
    ids=str,
)
def test_task_2_layers_refuses_invalid_windows_whichever_rule_applies(rest):
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 0, **rest}
    with raises_value_error(f"config {config}", "sliding_window"):
        layers.layer_windows(config)


@pytest.mark.parametrize("window", [4, None])
@pytest.mark.parametrize("words", [["full_attention"], ["full_attention"] * 3, []], ids=len)
def test_task_2_layers_refuses_wrong_number_of_types(words, window):
    config = {"num_hidden_layers": 2, "sliding_window": window, "layer_types": words}
    with raises_value_error(f"config {config}", "layer_types"):
        layers.layer_windows(config)


@pytest.mark.parametrize("word", ["chunked_attention", "linear_attention", "", "Sliding_Attention"])
def test_task_2_layers_refuses_unknown_types(word):
    for window in (4, None):
        config = {"num_hidden_layers": 2, "sliding_window": window, "layer_types": ["full_attention", word]}
        with raises_value_error(f"config {config}", "layer_types"):
            layers.layer_windows(config)


@pytest.mark.parametrize(
    "off", [{"sliding_window": None}, {"use_sliding_window": False}, {"model_type": "qwen3"}], ids=str
)
def test_task_2_layers_refuses_contradictions(off):
    """Local layer_types without a window."""
    words = ["full_attention", "sliding_attention"]
    config = {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 4, "layer_types": words, **off}
    with raises_value_error(f"config {config}", "layer_types"):
        layers.layer_windows(config)
