"""The widgets of week 2: their numbers are those of the course's own code, and they need no mouse."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week2 import day2, day3, day4, day6, day7
from tests.book.widget import Widget
from tests.week1.reference_model import embedded_model

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()


def test_the_kv_cache_is_the_solution_s(page):
    """The bytes are those of the model's caches; a step without a cache computes the whole sequence again."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    widget, checkpoint = Widget(page, "kv-cache"), embedded_model()
    data = widget.data()
    model = Qwen3CachedModel(ModelConfig.from_dict(checkpoint.config), checkpoint.weights)
    caches = model.new_caches()
    model(mx.zeros((1, data["prompt"]), dtype=mx.int32), caches)
    for length in range(data["prompt"], data["prompt"] + 4):
        assert widget.change(length=length, cached=False)["computed"] == length
        state = widget.change(cached=True)
        assert state["computed"] == (data["prompt"] if length == data["prompt"] else 1)
        assert state["anew"] == sum(range(data["prompt"], length + 1))
        assert state["once"] == length == caches[0].offset
        one = mx.zeros((1, checkpoint.config["num_key_value_heads"], 1, checkpoint.config["head_dim"]))
        stored = [kept for cache in caches for kept in cache.update_and_fetch(one, one)]
        assert state["bytes"] * (length + 1) == sum(kept.nbytes for kept in stored) * length


@pytest.mark.parametrize("_", range(3))
def test_the_kv_cache_by_keyboard(page, _):
    widget = Widget(page, "kv-cache")
    first = widget.state()["length"]
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowRight", "ArrowLeft")["length"] == first + 2
    widget.focus("[name=cached]")
    assert widget.press("Space")["computed"] == 1
    widget.focus("#length")
    assert widget.press("Home")["length"] == widget.data()["prompt"]
    assert widget.element.locator("#back").get_attribute("aria-disabled") == "true"
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('kv-cache').state.length > 20")
    widget.press("Enter")  # stops it
    still = widget.state()["length"]
    page.wait_for_timeout(200)
    assert widget.state()["length"] == still
    assert page.url == widget.address


def test_the_roofline_counts_as_the_solution_does(page):
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.measure.accounting import flops, traffic
    from tiny_llm_solution.measure.roofline import Roofline
    from tiny_llm_solution.measure.step import Step, Storage

    widget, small = Widget(page, "roof-line"), embedded_model().config
    machines = [Roofline(*limits) for limits in widget.data()["machines"].values()]
    configs = [ModelConfig.from_dict(small | large) for large in ({}, day2.LARGE)]
    storages = {32: Storage(4), 16: Storage(2), 8: Storage(2, 8, scale_size=2), 4: Storage(2, 4, scale_size=2)}
    limits = set()
    for model, (bits, storage) in itertools.product((0, 1), storages.items()):
        for machine, batch, length, offset in ((0, 0, 0, 0), (1, 3, 0, 512), (2, 9, 0, 256), (1, 0, 9, 8192)):
            state = widget.change(model=model, machine=machine, batch=batch, length=length, offset=offset, bits=bits)
            step = Step(configs[model], 2**length, offset, 2**batch)
            moved, work, roof = traffic(step, storage).total, flops(step).total, machines[machine]
            assert (state["bytes"], state["flops"]) == (moved, work)
            assert state["seconds"] == pytest.approx(roof.least_seconds(work, moved))
            assert state["limit"] == {"memory": "memory", "arithmetic": "compute"}[roof.limit(work, moved)]
            limits.add(state["limit"])
    assert limits == {"memory", "compute"}


@pytest.mark.parametrize("_", range(3))
def test_the_roofline_by_keyboard(page, _):
    widget = Widget(page, "roof-line")
    widget.focus("[name=model]")
    assert widget.press("ArrowDown")["model"] == 1
    widget.focus("#batch")
    assert widget.press("ArrowRight", "ArrowRight")["step"]["batch"] == 4
    widget.focus("#length")
    assert widget.press("End")["step"]["length"] == 1024
    assert "compute-bound" in widget.said()
    assert page.url == widget.address


def test_the_levels_and_errors_are_the_solution_s(page):
    from tiny_llm_solution.quantized.affine import dequantize, quantize
    from tiny_llm_solution.quantized.least_squares import quantize_least_squares

    widget, weights = Widget(page, "quant-levels"), np.array(day3.group())[0]
    for name, function in (("min-max levels", quantize), ("least-squares fit", quantize_least_squares)):
        for bits in (4, 8):
            packed, scales, biases = function(day3.group(), bits=bits)
            errors = np.array(dequantize(packed, scales, biases, bits=bits))[0] - weights
            scale, bias = widget.data()["fits"][name][str(bits)]
            state = widget.change(bits=bits, scale=scale, bias=bias)
            np.testing.assert_allclose(state["errors"], errors, atol=2e-6)
            assert f"{name} {np.square(errors).sum():.5f}"[:-1] in widget.said()
            assert state["error"] in state["others"]
    worse = widget.change(bits=4, scale=0.02)
    assert worse["error"] > max(worse["others"])


@pytest.mark.parametrize("_", range(3))
def test_the_levels_by_keyboard(page, _):
    widget = Widget(page, "quant-levels")
    first = widget.state()
    widget.focus("#scale")
    assert widget.press("ArrowRight", "ArrowRight")["scale"] == pytest.approx(first["scale"] + 0.0002, abs=6e-5)
    widget.focus("#fit-1")
    assert widget.press("Enter")["error"] < first["error"]
    widget.focus("[name=bits]")
    state = widget.press("ArrowDown")
    assert state["bits"] == 8
    assert state["error"] < first["error"] / 100
    assert page.url == widget.address


@pytest.mark.parametrize("hidden", [False, True])
def test_the_online_softmax_is_the_solution_s(page, hidden):
    from tiny_llm_solution.flash_attention.online_softmax import OnlineSoftmax

    widget, (_, scores, values) = Widget(page, "online-softmax"), day7.last_query()
    for size in (1, 2, 4, 6):
        running = OnlineSoftmax(1, 1)
        for step, first in enumerate(range(0, len(scores), size), 1):
            some = mx.full((1, len(scores[first : first + size])), -mx.inf) if hidden and not first else None
            block = mx.array(scores[None, first : first + size]).astype(mx.float32) if some is None else some
            running.add(block, mx.array(values[first : first + size, :1]).astype(mx.float32))
            state = widget.change(size=size, step=step, hidden=hidden)
            assert state["total"] == pytest.approx(running.total.item(), abs=1e-3)
            assert state["result"] == pytest.approx(running.result().item(), abs=1e-3)
            assert float(str(state["largest"]).replace("Infinity", "inf")) == pytest.approx(
                running.largest.item(), abs=1e-4
            )
    assert state["step"] == state["blocks"]


@pytest.mark.parametrize("_", range(3))
def test_the_online_softmax_by_keyboard(page, _):
    widget = Widget(page, "online-softmax")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["step"] == 2
    assert widget.press(*["ArrowRight"] * 9)["step"] == widget.state()["blocks"]
    assert "o / l is the output" in widget.said()
    widget.focus("[name=hidden]")
    assert widget.press("Space")["hidden"]
    widget.focus("select")
    assert widget.press("ArrowUp")["step"] == 0  # other blocks, from the beginning
    assert page.url == widget.address


def test_the_register_tile_counts_and_sums_as_the_loops_do(page):
    widget, (x, panel) = Widget(page, "register-tile"), day4.product()
    kinds = list(widget.data()["kinds"].values())
    fits = {kind: max(tokens for tokens in range(17) if 3 + 2 * tokens <= kinds[kind]["registers"]) for kind in (0, 1)}
    assert fits == {0: kinds[0]["tile"], 1: 14}
    for kind, tokens, registers in ((0, 1, 1), (0, 6, 2), (0, 7, 2), (1, 12, 2), (1, 15, 2), (2, 12, 1), (2, 5, 2)):
        lanes, limit = kinds[kind]["lanes"], kinds[kind]["registers"]
        width = lanes * registers
        for step in (0, 1, 5, len(panel)):
            sums, loads, products, lines = np.zeros((tokens, width)), 0, 0, set()
            for i in range(step):
                for r in range(registers):
                    loads += 1
                    lines |= {("panel", (i * width + r * lanes + lane) // 16) for lane in range(lanes)}
                for t in range(tokens):
                    loads += 1
                    lines.add((f"x {t}", i // 16))
                    for r in range(registers):
                        products += 1
                        part = slice(r * lanes, (r + 1) * lanes)
                        sums[t, part] += x[t, i] * panel[i, part]
            state = widget.change(kind=kind, tokens=tokens, registers=registers, step=step)
            np.testing.assert_allclose(state["sums"], sums, atol=1e-12)
            np.testing.assert_allclose(sums, x[:tokens, :step] @ panel[:step, :width], atol=1e-12)
            assert sum(state["lines"].values()) == len(lines)
            assert (state["sofar"]["panel"] + state["sofar"]["x"], state["sofar"]["products"]) == (loads, products)
        assert state["used"] == tokens * registers + registers + 1
        assert state["spilled"] == max(0, state["used"] - limit)
        assert ("too many" in widget.said()) == (state["used"] > limit)
        whole = [
            (registers + len(x[first : first + tokens]), registers * len(x[first : first + tokens]))
            for _ in range(0, panel.shape[1], width)
            for first in range(0, len(x), tokens)
            for _ in range(len(panel))
        ]
        found = state["whole"]
        assert [found["panel"] + found["x"], found["products"]] == np.sum(whole, axis=0).tolist()


@pytest.mark.parametrize("_", range(3))
def test_the_register_tile_by_keyboard(page, _):
    widget = Widget(page, "register-tile")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowLeft")["step"] == 2
    widget.focus("[name=kind]")
    state = widget.press("ArrowDown")
    assert (state["tokens"], state["used"], state["limit"]) == (12, 27, 32)
    widget.focus("#tokens")
    assert widget.press("End")["spilled"] == 3
    assert "3 too many" in widget.said()
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('register-tile').state.step >= 4")
    widget.press("Enter")
    assert page.url == widget.address


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
    assert widget.press("Enter", "ArrowRight", "ArrowLeft")["step"] == 3
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('lane-steps').state.step >= 5")
    widget.press("Enter")
    widget.change(step=14)
    assert widget.element.locator("#next").get_attribute("aria-disabled") == "true"
    assert page.url == widget.address
