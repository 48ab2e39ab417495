"""The widgets of week 3: their numbers are those of the course's own code, and they need no mouse."""

import mlx.core as mx
import numpy as np
import pytest
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()


def test_a_draft_token_is_accepted_as_by_the_solution(page):
    from tiny_llm_solution.speculative.acceptance import accept

    widget = Widget(page, "draft-accept")
    target = mx.array(widget.data()["target"])
    fates = set()
    for mix in (-1, -0.5, 0, 0.5):
        for token in range(len(widget.data()["tokens"])):
            for u in (0.05, 0.5, 0.95):
                state = widget.change(token=token, u=u, mix=mix)
                draft = mx.array(state["q"])
                np.testing.assert_allclose(sum(state["q"]), 1, atol=1e-5)
                accepted, _ = accept(mx.stack([target, target]), draft[None], [token], [u, 0.5])
                assert state["accepted"] == bool(accepted)
                fates.add(state["accepted"])
        rest = mx.maximum(target - draft, 0)
        np.testing.assert_allclose(state["residual"], np.array(rest / mx.sum(rest)), atol=1e-5)
        assert state["rate"] == pytest.approx(mx.sum(mx.minimum(target, draft)).item(), abs=1e-5)
    assert fates == {True, False}
    same = widget.change(mix=1, k=4, v=1, c=0)
    assert same["speed"] == same["tokens"] == pytest.approx(5, abs=1e-3)  # the target itself as draft


@pytest.mark.parametrize("_", range(3))
def test_a_draft_token_by_keyboard(page, _):
    widget = Widget(page, "draft-accept")
    widget.focus("[name=token]")
    assert widget.press("ArrowDown")["token"] == 1
    widget.focus("#u")
    assert widget.press("Home")["accepted"]
    assert "is accepted" in widget.said()
    widget.focus("#v")
    assert widget.press("End")["speed"] < 1
    widget.focus("#k")
    assert widget.press("ArrowRight")["k"] == 5
    assert page.url == widget.address
