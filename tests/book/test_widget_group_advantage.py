"""The widget of day 5.6: its advantages and gains are the solution's, and it needs no mouse."""

import mlx.core as mx
import numpy as np
import pytest
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()
GROUPS = ([1.0] * 8, [1.0] + [0.0] * 7, [0.1, 0.5, 0.5, 0.9, 0.0, 1.0, 0.3, 0.3])


def test_advantages_and_gains(page):
    from tiny_llm_solution.preferences.advantages import group_advantages
    from tiny_llm_solution.preferences.grpo import grpo_loss

    widget = Widget(page, "group-advantage")
    for rewards in GROUPS:
        expected = group_advantages(mx.array(rewards))
        for chosen, ratio in ((0, 0.4), (1, 0.95), (7, 2.0)):
            state = widget.change(**{f"r{i}": r for i, r in enumerate(rewards)}, chosen=chosen, ratio=ratio)
            np.testing.assert_allclose(state["advantages"], np.array(expected), atol=1e-5)
            sampler, mask = mx.array([[-1.0]]), mx.array([[True]])
            policy = sampler + mx.log(mx.array(ratio))
            found = grpo_loss(policy, sampler, sampler, expected[chosen : chosen + 1], mask, 0.2, 0.0)
            assert state["gain"] == pytest.approx(-found.loss.item(), abs=1e-5)
            assert state["clipped"] == bool(found.clipped.item())


@pytest.mark.parametrize("_", range(3))
def test_a_group_by_keyboard(page, _):
    widget = Widget(page, "group-advantage")
    start = widget.state()
    assert start["chosen"] == 6
    widget.change(chosen=0)
    widget.focus("#equal")
    assert set(widget.press("Enter")["advantages"]) == {0}
    widget.focus("#r0")
    state = widget.press("Home")
    assert state["rewards"][0] == 0
    assert state["advantages"][0] < -2
    widget.focus("#ratio")
    assert widget.press("End")["gain"] == pytest.approx(2 * state["advantages"][0], abs=1e-6)
    widget.focus("[name=chosen]")
    assert widget.press("ArrowDown")["chosen"] == 1
    widget.focus("#recorded")
    assert widget.press("Enter")["rewards"] == start["rewards"]
    assert page.url == widget.address
