"""What week 4's layers of latent attention read in a config.json, and what they refuse in one line."""

from typing import Any

import pytest
from tests.week4.latent_formulas import COMPRESSED, PLAIN

from tiny_llm_course.programs.packages import load_solution

load_solution()

from tiny_llm_solution.latent_attention.config import LatentConfig  # noqa: E402

# As files of DeepSeek's are, old and new.
OLD = {**PLAIN, "model_type": "deepseek_v2", "attention_bias": False, "rope_scaling": None}
NEW = {**COMPRESSED, "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}


def test_old_and_new_files_are_read() -> None:
    """Theta stands at the top, or in a table of its own; q_lora_rank may be missing."""
    assert LatentConfig.from_dict(OLD).rope_theta == 500.0
    assert LatentConfig.from_dict(NEW).rope_theta == 700.0
    assert LatentConfig.from_dict({name: x for name, x in OLD.items() if name != "q_lora_rank"}).q_lora_rank is None
    assert LatentConfig.from_dict(OLD).entry_dim == 11
    assert LatentConfig.from_dict(OLD).query_dim == 9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rope_scaling": {"type": "yarn", "factor": 40}}, "'yarn'"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2}}, "'linear'"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 40}}, "'yarn'"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_interleave": False}, "rope_interleave"),
        ({"kv_lora_rank": None}, "lacks kv_lora_rank"),
    ],
)
def test_what_is_not_supported_is_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        LatentConfig.from_dict({**OLD, **change})
    assert "\n" not in str(raised.value)
