"""The configuration that the learner is given: what it takes from a config.json, and what it refuses."""

import dataclasses

import pytest

from tiny_llm_course.paths import LEARNER, SOLUTION
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.config import ARCHITECTURES, ModelConfig  # noqa: E402

# As in the config.json of Qwen3-0.6B.
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}


def without(*names):
    return {name: value for name, value in QWEN3.items() if name not in names}


def test_every_entry_is_the_files():
    config = ModelConfig.from_dict(QWEN3)
    assert dataclasses.asdict(config) == {field.name: QWEN3[field.name] for field in dataclasses.fields(ModelConfig)}


def test_the_caller_keeps_its_dictionary():
    given = without("head_dim", "tie_word_embeddings")
    before = dict(given)
    ModelConfig.from_dict(given)
    assert given == before


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_the_architectures_that_are_known(model_type):
    kind = "qwen3" if model_type == "qwen3" else "qwen2"  # Llama 3 and Mistral are computed as Qwen2.5
    assert ModelConfig.from_dict({**QWEN3, "model_type": model_type}).model_type == kind


@pytest.mark.parametrize("model_type", ["gemma3_text", None])
def test_another_architecture_is_refused_by_name(model_type):
    with pytest.raises(ValueError, match=f"model_type is {model_type!r}, known are qwen3, qwen2, llama, mistral"):
        ModelConfig.from_dict({**QWEN3, "model_type": model_type})


def test_a_file_that_names_no_architecture_is_refused():
    with pytest.raises(ValueError, match="model_type is None"):
        ModelConfig.from_dict(without("model_type"))


@pytest.mark.parametrize("given", [without("head_dim"), {**QWEN3, "head_dim": None}], ids=["missing", "null"])
def test_without_head_dim_the_heads_share_the_hidden_size(given):
    """As in the files of Qwen2.5."""
    assert ModelConfig.from_dict(given).head_dim == 64


def test_a_head_dim_that_is_stated_stands():
    assert ModelConfig.from_dict(QWEN3).head_dim == 128


@pytest.mark.parametrize("given", [without("rope_theta"), {**QWEN3, "rope_theta": None}], ids=["missing", "null"])
def test_theta_may_stand_in_a_table_of_its_own(given):
    given = {**given, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}}
    assert ModelConfig.from_dict(given).rope_theta == 500.0


def test_a_theta_of_the_file_itself_comes_first():
    given = {**QWEN3, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}}
    assert ModelConfig.from_dict(given).rope_theta == 1000000


@pytest.mark.parametrize(
    "given", [{}, {"rope_parameters": None}, {"rope_parameters": {"rope_type": "default"}}], ids=str
)
def test_no_theta_is_refused(given):
    with pytest.raises(ValueError, match=r"^config\.json lacks rope_theta$"):
        ModelConfig.from_dict({**without("rope_theta"), **given})


def test_heads_are_tied_only_if_the_file_says_so():
    assert not ModelConfig.from_dict(without("tie_word_embeddings")).tie_word_embeddings
    assert not ModelConfig.from_dict({**QWEN3, "tie_word_embeddings": False}).tie_word_embeddings


OPTIONAL = {"model_type", "head_dim", "num_key_value_heads", "tie_word_embeddings"}


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(ModelConfig) if f.name not in OPTIONAL])
def test_a_missing_entry_is_named(name):
    with pytest.raises(ValueError, match=rf"config\.json lacks .*\b{name}\b"):
        ModelConfig.from_dict(without(name))


def test_all_missing_entries_are_named_at_once():
    with pytest.raises(ValueError, match=r"^config\.json lacks hidden_size, vocab_size$"):
        ModelConfig.from_dict(without("hidden_size", "vocab_size"))


def test_a_config_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig.from_dict(QWEN3).hidden_size = 1


def test_the_learner_is_given_the_same_file():
    assert (LEARNER / "config.py").read_text() == (SOLUTION / "config.py").read_text()
