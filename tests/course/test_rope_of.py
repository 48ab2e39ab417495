"""The RoPE of a config.json, which learners are given: what it takes from one, and what it refuses in one line."""

import math

import mlx.core as mx
import pytest

from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.long_context.interpolation import linear_frequencies  # noqa: E402
from tiny_llm_solution.long_context.rope import ScaledRoPE  # noqa: E402
from tiny_llm_solution.long_context.scaling import rope_of  # noqa: E402

PLAIN = {"head_dim": 8, "rope_theta": 300.0, "max_position_embeddings": 100}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 50}


def paces_of(rope: ScaledRoPE) -> mx.array:
    """Its frequencies, which do not depend on a length."""
    assert isinstance(rope.frequencies, mx.array)
    return rope.frequencies


@pytest.mark.parametrize(
    "config",
    [
        PLAIN,
        {**PLAIN, "rope_scaling": None},
        {**PLAIN, "rope_scaling": {}},
        {**PLAIN, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
        {**PLAIN, "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
        {"hidden_size": 24, "num_attention_heads": 3, "rope_theta": 300.0},
    ],
    ids=["nothing said", "none", "an empty table", "default", "theta in the table", "head_dim to be computed"],
)
def test_without_scaling_the_paces_are_those_of_the_training(config):
    rope = rope_of(config)
    assert mx.array_equal(paces_of(rope), linear_frequencies(8, 300.0, 1))
    assert rope.attention_factor == 1
    assert not rope.traditional


@pytest.mark.parametrize("table", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_older_and_newer_files_say_the_same(table, key):
    assert mx.array_equal(
        paces_of(rope_of({**PLAIN, table: {key: "linear", "factor": 2.5}})), linear_frequencies(8, 300.0, 2.5)
    )


def test_yarn_without_an_original_length_takes_the_models():
    named = rope_of({**PLAIN, "rope_scaling": {**YARN, "original_max_position_embeddings": 100}})
    silent = rope_of({**PLAIN, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})
    assert mx.array_equal(paces_of(named), paces_of(silent))


def test_llama3_keeps_divides_or_mixes_by_rotations():
    limits = {"original_max_position_embeddings": 100, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope = rope_of({**PLAIN, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, **limits}})
    frequencies = [300.0 ** (-i / 4) for i in range(4)]
    shares = [min(max((100 * f / (2 * math.pi) - 1) / 3, 0), 1) for f in frequencies]
    expected = [f * share + f / 8 * (1 - share) for f, share in zip(frequencies, shares, strict=True)]
    assert shares[0] == 1 > shares[1] > 0 == shares[3]
    assert mx.allclose(paces_of(rope), mx.array(expected), rtol=1e-6, atol=0)
    assert rope.attention_factor == 1


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**PLAIN, "rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "rope_type is 'longrope', known are"),
        ({**PLAIN, "rope_scaling": {"type": "linear"}}, "lacks factor, which rope_type 'linear' needs"),
        ({**PLAIN, "rope_scaling": {"type": "yarn"}}, "lacks factor, which rope_type 'yarn' needs"),
        (
            {**PLAIN, "rope_scaling": {"type": "llama3", "factor": 8.0}},
            "lacks original_max_position_embeddings, low_freq",
        ),
        ({"head_dim": 8}, "lacks rope_theta, which"),
        ({"rope_theta": 300.0}, "lacks head_dim, which"),
        (
            {"head_dim": 8, "rope_theta": 300.0, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "lacks max_position_embeddings",
        ),
        (
            {"head_dim": 8, "rope_theta": 300.0, "rope_scaling": {"type": "yarn", "factor": 2.0}},
            "lacks original_max_position_embeddings",
        ),
        ({**PLAIN, "partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        (
            {**PLAIN, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}},
            "differ from layer to layer",
        ),
        ({**PLAIN, "rope_scaling": {"type": "linear", "factor": 0.5}}, "factor is 0.5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_it_cannot_do_is_one_line(config, words):
    with pytest.raises(ValueError, match=words) as caught:
        rope_of(config)
    assert "\n" not in str(caught.value)
