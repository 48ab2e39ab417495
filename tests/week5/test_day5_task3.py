"""Task 5.5.3, saving an adapter: the files that PEFT and mlx-lm document, name by name."""

import json

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.adapters import DOWN11, FILES, Q0, Q1, SIZES, V0, drawn, tensors_of

from tiny_llm.lora import files
from tiny_llm.lora.adapter import Adapter
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes

by_form = pytest.mark.parametrize("form", ["peft", "mlx-lm"])


def saved(folder, weights, alpha, form, case):
    """Return the config and the tensors that the learner's code writes."""
    before = {name: to_float64(w).tolist() for name, w in weights.items()}
    with noted(case):
        files.save_adapter(folder, Adapter(weights, alpha), form)
    for file in ("adapter_config.json", FILES[form]):
        if not (folder / file).is_file():
            names = ", ".join(sorted(path.name for path in folder.glob("*"))) if folder.exists() else "no folder"
            fail(Kind.VALUES, f"{file} was not written", case, f"got       {names}")
    fail_if_different("the adapter was changed", before, {n: to_float64(w).tolist() for n, w in weights.items()}, case)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    return config, mx.load(str(folder / FILES[form]))


def check_entries(where, expected, found, case):
    """Check the entries of a config that a format has; others may be there too."""
    if missing := [name for name in expected if name not in found]:
        fail(Kind.VALUES, f"{where} has no {missing[0]!r}", case, f"got       {', '.join(found) or 'nothing'}")
    for name, value in expected.items():
        fail_if_different(f"{where} is wrong, at `{name}`", value, found[name], case)


def parameters_of(config, case):
    parameters = config.get("lora_parameters")
    if not isinstance(parameters, dict):
        fail(Kind.VALUES, "adapter_config.json has no 'lora_parameters'", case, f"got       {', '.join(config)}")
    return parameters


def check_tensors(tensors, weights, form, case):
    expected = tensors_of(form, weights)
    fail_if_different("the tensors' names are wrong", sorted(expected), sorted(tensors), case)
    for name, w in expected.items():
        compare(tensors[name], to_float64(w), w.dtype, 0.0, f"{case}, {name}", w.size, indirect=False)


@by_form
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_3_save_tensors(tmp_path, form, dtype):
    """Names, layout and values; the dtype stays."""
    weights = drawn(1, dtype=dtype)
    case = f"form {form!r}, four projections of layers 0, 1 and 11, r 2, alpha 3, {str(dtype).rpartition('.')[2]}"
    _, tensors = saved(tmp_path, weights, 3.0, form, case)
    check_tensors(tensors, weights, form, case)


@by_form
@pytest.mark.parametrize("rank", [5, 7])
def test_task_3_save_square_matrices(tmp_path, form, rank):
    """r is O or I of q_proj, so that a matrix that is not transposed fits as well."""
    weights = drawn(2, (Q0,), rank)
    case = f"form {form!r}, one projection, O 5, I 7, r {rank}, alpha 3"
    _, tensors = saved(tmp_path, weights, 3.0, form, case)
    check_tensors(tensors, weights, form, case)


@pytest.mark.parametrize(("rank", "alpha"), [(2, 3.0), (4, 4.0), (8, 16.0), (3, 1.0), (4, 2.5), (2, 0.5)])
def test_task_3_save_peft_config(tmp_path, rank, alpha):
    case = f"form 'peft', four projections, r {rank}, alpha {alpha}"
    config, _ = saved(tmp_path, drawn(3, rank=rank), alpha, "peft", case)
    expected = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": alpha}
    expected["target_modules"] = ["down_proj", "q_proj", "v_proj"]
    check_entries("adapter_config.json", expected, config, case)


@pytest.mark.parametrize("number", [7, 10, 99, 100, 125])
def test_task_3_save_number_of_a_layer(tmp_path, number):
    """One, two or three digits; Llama 3.1 405B has 126 layers."""
    case = f"form 'mlx-lm', one projection, of layer {number}, r 2, alpha 3"
    name = f"model.layers.{number}.mlp.down_proj"
    weights = {f"{name}.lora_a": mx.ones((2, 6)), f"{name}.lora_b": mx.ones((7, 2))}
    config, _ = saved(tmp_path, weights, 3.0, "mlx-lm", case)
    check_entries(
        "lora_parameters in adapter_config.json", {"keys": ["mlp.down_proj"]}, parameters_of(config, case), case
    )


@pytest.mark.parametrize(("rank", "alpha"), [(2, 3.0), (4, 4.0), (8, 16.0), (3, 1.0), (4, 2.5), (2, 0.5)])
def test_task_3_save_mlx_lm_config(tmp_path, rank, alpha):
    case = f"form 'mlx-lm', four projections, r {rank}, alpha {alpha}"
    config, _ = saved(tmp_path, drawn(4, rank=rank), alpha, "mlx-lm", case)
    own = {"fine_tune_type": "lora", "num_layers": -1}
    check_entries("adapter_config.json", own, config, case)
    keys = ["mlp.down_proj", "self_attn.q_proj", "self_attn.v_proj"]
    expected = {"rank": rank, "scale": alpha / rank, "dropout": 0.0, "keys": keys}
    check_entries("lora_parameters in adapter_config.json", expected, parameters_of(config, case), case)


@by_form
def test_task_3_save_sorts_names(tmp_path, form):
    """Seven projections in each of 12 layers: each name once, in alphabetical order."""
    parts = [f"self_attn.{x}_proj" for x in "qkvo"] + [f"mlp.{x}_proj" for x in ("gate", "up", "down")]
    weights = {}
    for name in (f"model.layers.{i}.{part}" for i in range(12) for part in parts):
        weights[f"{name}.lora_a"], weights[f"{name}.lora_b"] = mx.ones((2, 3)), mx.ones((4, 2))
    case = f"form {form!r}, the seven projections of 12 layers, r 2, alpha 3"
    config, _ = saved(tmp_path, weights, 3.0, form, case)
    if form == "peft":
        expected = {"target_modules": sorted(part.rpartition(".")[2] for part in parts)}
        check_entries("adapter_config.json", expected, config, case)
    else:
        check_entries(
            "lora_parameters in adapter_config.json", {"keys": sorted(parts)}, parameters_of(config, case), case
        )


@by_form
def test_task_3_save_creates_folders(tmp_path, form):
    weights, case = drawn(5, (V0,)), f"form {form!r}, in a folder whose parent does not exist"
    _, tensors = saved(tmp_path / "a" / "b", weights, 3.0, form, case)
    check_tensors(tensors, weights, form, case)


@by_form
def test_task_3_save_over_another(tmp_path, form):
    """A folder that has an adapter already gets the new one."""
    case = f"form {form!r}, over an adapter of three projections"
    saved(tmp_path, drawn(6, (Q0, V0, Q1)), 3.0, form, case)
    config, tensors = saved(tmp_path, drawn(7, (V0,)), 5.0, form, case)
    check_tensors(tensors, drawn(7, (V0,)), form, case)
    if form == "peft":
        check_entries("adapter_config.json", {"lora_alpha": 5.0}, config, case)
    else:
        check_entries("lora_parameters in adapter_config.json", {"scale": 2.5}, parameters_of(config, case), case)


def test_task_3_save_sweep(tmp_path):
    for n in sizes(N=20, R=20):
        names = [
            f"model.layers.{i}.{x}_proj" for i in range(n.N) for x in n.turn(("self_attn.q",), ("mlp.up", "mlp.gate"))
        ]
        weights = {}
        for name in names:
            weights[f"{name}.lora_a"], weights[f"{name}.lora_b"] = mx.ones((n.R, 3)), mx.zeros((2, n.R))
        form = n.turn("peft", "mlx-lm")
        case = f"form {form!r}, {len(names)} projections, r {n.R}, alpha 3"
        config, tensors = saved(tmp_path / str(n.seed), weights, 3.0, form, case)
        check_tensors(tensors, weights, form, case)
        if form == "peft":
            check_entries("adapter_config.json", {"r": n.R}, config, case)
        else:
            check_entries("lora_parameters in adapter_config.json", {"rank": n.R}, parameters_of(config, case), case)


@property_test
@given(some=st.sets(st.sampled_from(sorted(SIZES)), min_size=1), seed=st.integers(0, 99))
def test_task_3_save_any_projections(tmp_path_factory, some, seed):
    weights = drawn(seed, sorted(some))
    for form in FILES:
        case = f"form {form!r}, {', '.join(sorted(some))}, r 2, alpha 3, seed {seed}"
        _, tensors = saved(tmp_path_factory.mktemp("adapter"), weights, 3.0, form, case)
        check_tensors(tensors, weights, form, case)


@pytest.mark.parametrize("form", ["PEFT", "mlx_lm", "gguf", ""])
def test_task_3_save_refuses_other_forms(tmp_path, form):
    case = f"form {form!r}"
    with raises_value_error(case):
        files.save_adapter(tmp_path / "new", Adapter(drawn(8, (DOWN11,)), 3.0), form)
    if any(tmp_path.iterdir()):
        fail(Kind.VALUES, "a folder or a file was written before the form was checked", case)
