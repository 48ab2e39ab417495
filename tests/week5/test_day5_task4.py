"""Task 5.5.4, loading an adapter: folders of both forms, written by the test, and what must be refused."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.adapters import FILES, Q0, SIZES, V0, config_of, drawn, tensors_of, write

from tiny_llm.lora import files
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import fail_if_different, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes

by_form = pytest.mark.parametrize("form", ["peft", "mlx-lm"])


def check_loaded(folder, weights, alpha, case):
    with noted(case):
        adapter = files.load_adapter(folder)
        names, own = sorted(adapter.weights), float(adapter.alpha)
    fail_if_different("the names in `weights` are wrong", sorted(weights), names, case)
    compare(mx.array(own), to_float64(mx.array(alpha)), mx.float32, 1e-4, f"{case}, alpha", 1, indirect=False)
    for name, w in weights.items():
        compare(adapter.weights[name], to_float64(w), w.dtype, 0.0, f"{case}, {name}", w.size, indirect=False)


@by_form
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_4_load_tensors(tmp_path, form, dtype):
    weights = drawn(1, dtype=dtype)
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, 2, 3.0))
    check_loaded(
        folder, weights, 3.0, f"form {form!r}, four projections, r 2, alpha 3, {str(dtype).rpartition('.')[2]}"
    )


@by_form
@pytest.mark.parametrize("rank", [5, 7])
def test_task_4_load_square_matrices(tmp_path, form, rank):
    weights = drawn(2, (Q0,), rank)
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, rank, 3.0))
    check_loaded(folder, weights, 3.0, f"form {form!r}, one projection, O 5, I 7, r {rank}, alpha 3")


@by_form
@pytest.mark.parametrize(("rank", "alpha"), [(4, 4.0), (8, 16.0), (1, 32.0), (3, 1.0)])
def test_task_4_load_alpha(tmp_path, form, rank, alpha):
    weights = drawn(3, (V0,), rank)
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, rank, alpha))
    check_loaded(folder, weights, alpha, f"form {form!r}, r {rank}, alpha / r {alpha / rank:.4g}")


@pytest.mark.parametrize("rank", [1, 4, 9])
def test_task_4_load_rslora(tmp_path, rank):
    """Rank-stabilised LoRA divides by the root of r."""
    weights = drawn(4, (V0,), rank)
    folder = write(tmp_path, "peft", tensors_of("peft", weights), config_of("peft", rank, 3.0, use_rslora=True))
    check_loaded(folder, weights, 3.0 * rank**0.5, f"form 'peft', r {rank}, lora_alpha 3, use_rslora true")


def test_task_4_load_what_changes_nothing(tmp_path):
    """A config as PEFT writes it, with every default."""
    more = {
        "auto_mapping": None, "base_model_name_or_path": "some/model", "bias": "none", "fan_in_fan_out": False,
        "inference_mode": True, "init_lora_weights": True, "layers_to_transform": None, "lora_dropout": 0.05,
        "modules_to_save": None, "rank_pattern": {}, "alpha_pattern": {}, "use_dora": False, "use_rslora": False,
        "task_type": "CAUSAL_LM", "revision": None,
    }  # fmt: skip
    weights = drawn(5)
    folder = write(tmp_path, "peft", tensors_of("peft", weights), config_of("peft", 2, 3.0, **more))
    check_loaded(folder, weights, 3.0, "form 'peft', a config with every default")


def test_task_4_load_older_mlx_lm(tmp_path):
    """Before there were other kinds, mlx-lm's config had no fine_tune_type."""
    weights, config = drawn(6), config_of("mlx-lm", 2, 3.0)
    del config["fine_tune_type"]
    folder = write(tmp_path, "mlx-lm", tensors_of("mlx-lm", weights), config)
    check_loaded(folder, weights, 3.0, "form 'mlx-lm', without fine_tune_type")


@by_form
def test_task_4_load_config_decides(tmp_path, form):
    """A folder that was converted, and still has the other form's file: the config says which one counts."""
    weights, other = drawn(13), next(each for each in FILES if each != form)
    write(tmp_path, other, tensors_of(other, drawn(14, rank=3)), config_of(other, 3, 5.0))
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, 2, 3.0))
    check_loaded(folder, weights, 3.0, f"form {form!r} in the config, and also the file {FILES[other]}")


def test_task_4_load_sweep(tmp_path):
    for n in sizes(N=20, R=20):
        weights = {}
        for i in range(n.N):
            name = f"model.layers.{i}.{n.turn('mlp.up', 'self_attn.o')}_proj"
            weights[f"{name}.lora_a"] = mx.arange(3.0 * n.R).reshape(n.R, 3)
            weights[f"{name}.lora_b"] = mx.arange(2.0 * n.R).reshape(2, n.R)
        form = n.turn("peft", "mlx-lm")
        folder = write(tmp_path / str(n.seed), form, tensors_of(form, weights), config_of(form, n.R, 3.0))
        check_loaded(folder, weights, 3.0, f"form {form!r}, {n.N} projections, r {n.R}, alpha 3")


@property_test
@given(some=st.sets(st.sampled_from(sorted(SIZES)), min_size=1), rank=st.integers(1, 8), seed=st.integers(0, 99))
def test_task_4_load_both_forms_alike(tmp_path_factory, some, rank, seed):
    """The same adapter in either form."""
    weights = drawn(seed, sorted(some), rank)
    for form in FILES:
        folder = tmp_path_factory.mktemp("adapter")
        write(folder, form, tensors_of(form, weights), config_of(form, rank, 3.0))
        check_loaded(folder, weights, 3.0, f"form {form!r}, {', '.join(sorted(some))}, r {rank}, seed {seed}")


REFUSED = [
    ("use_dora", True), ("fan_in_fan_out", True), ("bias", "all"), ("bias", "lora_only"),
    ("modules_to_save", ["lm_head"]), ("rank_pattern", {"q_proj": 4}), ("alpha_pattern", {"q_proj": 8}),
    ("peft_type", "IA3"), ("peft_type", "ADALORA"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "value"), REFUSED, ids=str)
def test_task_4_load_refuses_other_adapters(tmp_path, entry, value):
    config = config_of("peft", 2, 3.0) | {entry: value}
    folder = write(tmp_path, "peft", tensors_of("peft", drawn(7)), config)
    with raises_value_error(f"form 'peft', {entry} {value!r}", entry):
        files.load_adapter(folder)


@pytest.mark.parametrize("kind", ["dora", "full"])
def test_task_4_load_refuses_other_kinds(tmp_path, kind):
    config = config_of("mlx-lm", 2, 3.0) | {"fine_tune_type": kind}
    folder = write(tmp_path, "mlx-lm", tensors_of("mlx-lm", drawn(8)), config)
    with raises_value_error(f"form 'mlx-lm', fine_tune_type {kind!r}", "fine_tune_type"):
        files.load_adapter(folder)


def test_task_4_load_refuses_other_configs(tmp_path):
    folder = write(tmp_path, "peft", tensors_of("peft", drawn(9)), {"r": 2, "lora_alpha": 3.0})
    with raises_value_error("a config without peft_type and lora_parameters"):
        files.load_adapter(folder)


OTHERS = {
    "peft": [
        "base_model.model.{}.lora_magnitude_vector", "base_model.model.{}.lora_embedding_A", "{}.lora_A.weight",
        "base_model.model.{}.lora_A.weight.absmax", "base_model.model.{}.lora_A.default.weight",
        "base_model.model.{}.lora_a.weight",
    ],
    "mlx-lm": ["{}.m", "{}.weight", "{}.lora_b.scales", "{}.lora_A"],
}  # fmt: skip


@pytest.mark.parametrize(("form", "name"), [(form, name) for form, names in OTHERS.items() for name in names])
def test_task_4_load_refuses_other_tensors(tmp_path, form, name):
    """DoRA's magnitudes, an embedding's A, a quantized matrix's scales, or a name or a letter of another form."""
    tensor = name.format(V0)
    tensors = {**tensors_of(form, drawn(10)), tensor: mx.ones((2, 7))}
    folder = write(tmp_path, form, tensors, config_of(form, 2, 3.0))
    with raises_value_error(f"form {form!r}, and a tensor {tensor}", tensor):
        files.load_adapter(folder)


@by_form
@pytest.mark.parametrize("missing", ["a", "b"])
def test_task_4_load_refuses_half_a_pair(tmp_path, form, missing):
    weights = drawn(11)
    del weights[f"{V0}.lora_{missing}"]
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, 2, 3.0))
    with raises_value_error(f"form {form!r}, without the {missing.upper()} of {V0}", V0):
        files.load_adapter(folder)


@by_form
@pytest.mark.parametrize("which", ["a", "b"])
def test_task_4_load_refuses_another_rank(tmp_path, form, which):
    weights = drawn(12)
    weights[f"{V0}.lora_{which}"] = drawn(12, (V0,), 3)[f"{V0}.lora_{which}"]
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, 2, 3.0))
    with raises_value_error(f"form {form!r}, r 2, but the {which.upper()} of {V0} has r 3", V0):
        files.load_adapter(folder)


@by_form
@pytest.mark.parametrize("names", [(Q0, V0), (V0,)], ids=["of one projection", "of all"])
def test_task_4_load_refuses_a_pair_of_another_rank(tmp_path, form, names):
    """A and B fit each other, but not the config."""
    weights = drawn(15, names) | drawn(15, (V0,), 3)
    folder = write(tmp_path, form, tensors_of(form, weights), config_of(form, 2, 3.0))
    with raises_value_error(f"form {form!r}, r 2, but A and B of {V0} have r 3", V0):
        files.load_adapter(folder)
