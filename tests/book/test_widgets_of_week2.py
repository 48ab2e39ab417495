"""The widgets of week 2: their numbers are those of the course's own code, and they need no mouse."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week2 import day2, day3, day4, day7
from tests.book.test_widgets import fits
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

    widget, (_, scores, values) = Widget(page, "online-softmax", "week2/day7.html"), day7.last_query()
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
    widget = Widget(page, "online-softmax", "week2/day7.html")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowLeft", "ArrowLeft")["step"] == 1
    assert widget.press(*["ArrowRight"] * 9)["step"] == widget.state()["blocks"]
    assert "o / l is the output" in widget.said()
    widget.focus("[name=hidden]")
    assert widget.press("Space")["hidden"]
    widget.focus("select")
    assert widget.press("ArrowUp")["step"] == 0  # other blocks, from the beginning
    fits(page, widget)
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
