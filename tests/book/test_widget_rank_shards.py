"""The widget of day 6.2 shows what the solution's `Partition` returns."""

import pytest
from tests.book.widget import Widget

from tiny_llm_course.checkpoints.checkpoint import read_config
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


@pytest.mark.parametrize("ranks", [1, 2, 6])
def test_ranks_hold_what_the_solution_says(page, ranks):
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.tensor_parallel.shards import Partition

    state = Widget(page, "rank-shards").change(model=0, ranks=ranks)
    config = ModelConfig.from_dict(read_config(EMBEDDED_MODEL))
    assert len(state["ranks"]) == ranks
    for rank, (query, key, mlp, tokens) in enumerate(state["ranks"]):
        own = Partition(config, rank, ranks)
        assert query[1] - query[0] == own.config.num_attention_heads
        assert key[0] == query[0] * config.num_key_value_heads // config.num_attention_heads
        assert mlp[1] - mlp[0] == own.config.intermediate_size
        assert tuple(tokens) == (own.vocabulary.start, own.vocabulary.stop)
    assert state["copies"] == max(1, ranks // config.num_key_value_heads)
    assert state["sums"] == 2 * config.num_hidden_layers + 1


def test_what_does_not_divide_is_an_error(page):
    state = Widget(page, "rank-shards").change(model=0, ranks=4)
    assert "6 query heads" in state["error"]
    assert state["ranks"] == []


def test_the_arrow_keys_step(page):
    widget = Widget(page, "rank-shards")
    widget.change(model=1, ranks=2, step=3)
    page.locator("rank-shards").locator("#next").focus()
    page.keyboard.press("ArrowRight")
    assert widget.state()["name"] == "all_sum"
