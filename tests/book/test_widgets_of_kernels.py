"""The widgets of 2.4's SIMD lanes and 2.6's split-K: their sums are those of the model's `down_proj`."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week2 import day4, day6
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()


def test_split_k_runs_and_sums_as_the_grid_does(page):
    """Its sums are those of `down_proj`, and its threadgroups start in order, each when a slot is free."""
    widget, (inputs, sums) = Widget(page, "split-k"), day6.sums_of_blocks()
    q, scale, bias, _ = day6.packed()
    y = (scale * q + bias) @ day6.read_by_down(day6.SENTENCE)[-1]
    assert sum(inputs) == q.shape[1]
    columns = len(y) // 8
    for parts, slots in itertools.product((1, 2, 3, 4), (16, 32, 48, 96, 128)):
        each = -(-len(inputs) // parts)
        blocks = [[*range(len(inputs))][part * each : (part + 1) * each] for part in range(parts)]
        queue = [(part, column) for part in range(parts) for column in range(columns)]
        running: list[tuple[int, int, int]] = []  # part, column, blocks done
        found, iterations, states = np.zeros((parts, len(y))), 0, []
        while queue or running:
            while queue and (len(running) < slots or not blocks[queue[0][0]]):
                part, column = queue.pop(0)
                if blocks[part]:
                    running.append((part, column, 0))
            if not running:
                break
            iterations += 1
            for part, column, done in running:
                rows = slice(8 * column, 8 * column + 8)
                found[part, rows] += sums[blocks[part][done], rows]
            states.append((len(running), found.copy()))
            after = [(part, column, done + 1) for part, column, done in running]
            running = [(part, column, done) for part, column, done in after if done < len(blocks[part])]
        for step, (busy, partial) in enumerate(states, 1):
            state = widget.change(parts=parts, slots=slots, step=step)
            assert (state["running"], state["iterations"], state["added"]) == (busy, iterations, False)
            np.testing.assert_allclose(state["sums"], partial, atol=3e-4)
        state = widget.change(step=iterations + 1)
        assert state["added"]
        np.testing.assert_allclose(state["y"], y, atol=3e-4)
        assert widget.said().endswith(f"{y[0]:.3f}.")
    assert widget.change(parts=4, tokens=8)["traffic"] == 2 * mx.zeros((4, 8, 256)).nbytes / 1024
    packed = [mx.zeros((256, 72), mx.uint32), mx.zeros((256, 9)), mx.zeros((256, 9))]
    assert widget.data()["packed"] == sum(each.nbytes for each in packed) / 1024


@pytest.mark.parametrize("_", range(3))
def test_split_k_by_keyboard(page, _):
    widget = Widget(page, "split-k")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowLeft")["step"] == 2
    widget.focus("#parts")
    assert widget.press("End")["division"] == [[0], [1], [2], []]
    assert "no inputs, writes zeros" in widget.element.locator("#work").text_content()
    widget.focus("#slots")
    assert widget.press("Home")["iterations"] == 6
    widget.focus("#tokens")
    assert widget.press("End")["traffic"] == 64
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('split-k').state.added")
    assert widget.element.locator("#next").get_attribute("aria-disabled") == "true"
    assert page.url == widget.address


def test_the_lanes_sum_as_the_kernel_does(page):
    widget, data = Widget(page, "lane-steps"), day4.row_in_lanes()
    q, scale, bias, _ = day6.packed()
    x, w = day6.read_by_down(day6.SENTENCE)[-1], (scale * q + bias)[0]
    words = q[0].reshape(-1, 8, 8)  # block, lane, digit
    factors = x.reshape(-1, 8, 8)
    dot = np.zeros(8)
    for digit in range(8):
        dot += words[0, :, digit] * factors[0, :, digit]
        state = widget.change(step=2 + digit)
        np.testing.assert_allclose(state["sums"], dot, atol=0.01)
        assert [row[digit] for row in state["q"]] == words[0, :, digit].tolist()
        assert (state["weights"], state["operations"]) == (8 * (digit + 1), 4 * (digit + 1))
    np.testing.assert_allclose(widget.change(step=10)["sums"], dot * scale[0, 0], atol=1e-3)
    total = (words * factors).sum(axis=2) * scale[0, ::64, None]  # a block is a group
    state = widget.change(step=11)
    np.testing.assert_allclose(state["sums"], total.sum(axis=0), atol=1e-4)
    assert (state["weights"], 256 * state["operations"], data["blocks"]) == (576, 73728, 9)
    assert [widget.change(step=step)["held"] for step in (12, 13, 14)] == [4, 2, 1]
    assert state["y"] is None
    assert widget.state()["y"] == pytest.approx(w @ x, abs=1e-3)
    assert widget.said().endswith(f"y[0] = {w @ x:.3f}.")


@pytest.mark.parametrize("_", range(3))
def test_the_lanes_by_keyboard(page, _):
    widget = Widget(page, "lane-steps")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowLeft")["step"] == 4
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('lane-steps').state.step >= 5")
    widget.press("Enter")
    widget.change(step=14)
    assert widget.element.locator("#next").get_attribute("aria-disabled") == "true"
    assert page.url == widget.address
