"""The widgets of week 3: their numbers are those of the course's own code, and they need no mouse."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week3 import day3
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


def test_the_replay_s_figures_are_those_of_the_latencies(page):
    from tiny_llm_solution.serving.latency import Latency, RequestTimes

    widget, preempted = Widget(page, "scheduler-replay"), 0
    for setting in ((0, 1, 1, 0), (1, 2, 1, 0), (2, 1, 1, 0), (3, 1, 0, 0), (2, 2, 1, 1)):
        names = dict(zip(day3.SETTINGS, setting, strict=True))
        requests, steps = day3.recorded(*setting)
        clock, times = [0], {request: [] for request in requests}
        for step in steps:
            clock.append(clock[-1] + day3.FIXED + sum(len(chunk.tokens) for chunk in step.chunks))
            for chunk, new in zip(step.chunks, step.new, strict=True):
                times[chunk.request] += [clock[-1]] * len(new)
        latency = Latency()
        for request, (comes, _, _) in zip(requests, day3.LOAD, strict=True):
            latency.add(RequestTimes(clock[comes], clock[comes], times[request]))
        state = widget.change(**names, step=len(steps))
        assert (state["steps"], state["now"]) == (len(steps), clock[-1])
        assert state["firsts"] == latency.ttft
        assert state["tokens"] == sum(output for _, _, output in day3.LOAD)
        assert state["longest"] == max(b - a for each in times.values() for a, b in itertools.pairwise(each))
        assert state["preempted"] == sum(len(step.preempted) for step in steps)
        preempted += state["preempted"]
    assert preempted
    assert widget.change(step=0)["tokens"] == 0


@pytest.mark.parametrize("_", range(3))
def test_the_replay_by_keyboard(page, _):
    widget = Widget(page, "scheduler-replay")
    last = widget.state()["steps"]
    widget.focus("#back")
    assert widget.press("Enter", "ArrowLeft")["at"] == last - 2
    widget.focus("[name=policy]")
    assert widget.press("ArrowDown")["policy"] == 1
    widget.focus("#step")
    assert widget.press("Home")["at"] == 0
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('scheduler-replay').state.at >= 2")
    widget.press("Enter")
    assert page.url == widget.address
