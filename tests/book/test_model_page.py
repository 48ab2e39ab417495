"""The whole model on one page: its numbers are the solution's, and it is gone through by keyboard."""

import json

import mlx.core as mx
import numpy as np
import pytest
from tests.book.widget import Widget

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.engine import engine
from tiny_llm_course.dev.book.html import visible
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.embedded import embedded_checkpoint

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()

HEADS = [(layer, head) for layer in range(6) for head in range(6)]


@pytest.fixture
def widget(page):
    return Widget(page, "model-zoom")


def every_box(boxes):
    return [one for box in boxes for one in (box, *every_box(box["parts"]))]


def test_its_boxes_are_those_of_the_registry(widget):
    shown = [box["path"] for box in every_box(widget.data()["boxes"])]
    assert shown == [part.path for box in engine(load_course().tasks()) for part in box]


def solved():
    """What the solution's parts compute in float32, by box: of a layer stacked over the layers."""
    from tiny_llm_solution.attention import causal_mask
    from tiny_llm_solution.basics import linear, silu, softmax

    engine = load_engine(None, solution=True, dtype="float32", stage="week1")
    model = engine.model
    x = model.embedding(mx.array([engine.encode("That is a blue dog")]))
    found = {"embedding": [x[0]]}

    def keep(box, *arrays):
        for i, array in enumerate(arrays):
            found.setdefault(f"{box} {i}" if len(arrays) > 1 else box, []).append(array)

    for layer in model.layers:
        a, read = layer.attention, layer.input_norm(x)
        split = [mx.unflatten(linear(read, w), -1, (-1, 64)) for w in (a.wq, a.wk, a.wv)]
        normed = [mx.fast.rms_norm(y, w, a.eps) for y, w in zip(split, (a.q_norm, a.k_norm), strict=False)]
        turned = [a.rope(y) for y in normed]
        # Each as H x L x D, a key-value head for every query head that reads it.
        split, normed, turned = (
            [mx.repeat(y[0].swapaxes(0, 1), 6 // y.shape[2], axis=0) for y in group]
            for group in (split, normed, turned)
        )
        scores = turned[0] @ turned[1].swapaxes(-1, -2) / 8
        weights = softmax(scores + causal_mask(5, 5, mx.float32), -1)
        heads, added = weights @ split[2], a(read, "causal")
        second = layer.mlp_norm(x + added)
        gate, up = linear(second, layer.mlp.w_gate), linear(second, layer.mlp.w_up)
        mlp = layer.mlp(second)
        keep("layers/norm 1", read[0])
        keep("layers/attention", added[0])
        keep("layers/attention/q, k, v", *split)
        keep("layers/attention/q, k norm", *normed)
        keep("layers/attention/RoPE", *turned)
        keep("layers/attention/GQA", heads)
        keep("layers/attention/GQA/scores", scores)
        keep("layers/attention/GQA/mask", scores)
        keep("layers/attention/GQA/softmax", weights)
        keep("layers/attention/GQA/values", split[2], heads)
        keep("layers/attention/output", heads.swapaxes(0, 1).flatten(1), added[0])
        keep("layers/norm 2", second[0])
        keep("layers/MLP/gate, up", gate[0], up[0])
        keep("layers/MLP/silu", (silu(gate) * up)[0])
        keep("layers/MLP/down", mlp[0])
        keep("layers/MLP", mlp[0])
        x = layer(x, "causal")
        keep("layers", x[0])
    keep("norm", model.norm(x)[0])
    one = ("embedding", "norm")
    return {box: np.array(arrays[0]) if box in one else np.array(mx.stack(arrays)) for box, arrays in found.items()}


def test_every_array_is_the_solution_s(widget):
    """Each number of each array, of every layer and head; and how many there are behind those that are shown."""
    wanted, seen = solved(), set()
    for box in every_box(widget.data()["boxes"]):
        arrays = box.get("arrays", [])
        for i, shown in enumerate(arrays):
            name = f"{box['path']} {i}" if len(arrays) > 1 else box["path"]
            seen.add(name)
            values = np.array(shown["values"])
            assert shown["whole"] == wanted[name].shape[-1]
            np.testing.assert_allclose(values, wanted[name][..., : values.shape[-1]], atol=0.0061, err_msg=name)
    assert seen == set(wanted)


def test_shapes_words_and_weights_are_the_model_s(widget):
    from tiny_llm_solution.basics import softmax

    engine = load_engine(None, solution=True, dtype="float32", stage="week1")
    boxes = {box["path"]: box for box in every_box(widget.data()["boxes"])}
    weights = embedded_checkpoint().weights.values()
    assert sum(box["weights"] for box in widget.data()["boxes"]) == sum(array.size for array in weights)
    logits = engine.model(mx.array([engine.encode("That is a blue dog")]))[0, -1]
    shares = softmax(logits.astype(mx.float32), -1)
    order = mx.argsort(-shares)[:8].tolist()
    for row, token in zip(boxes["sampler"]["rows"], order, strict=True):
        assert row[0] == visible(engine.tokenizer.decode([token]))
        assert float(row[1]) == pytest.approx(shares[token].item(), abs=0.0011)
    for row, token in zip(boxes["logits"]["rows"], order, strict=True):
        assert float(row[1]) == pytest.approx(logits[token].item(), abs=0.0061)
    assert [int(row[1]) for row in boxes["tokens"]["rows"]] == engine.encode("That is a blue dog")
    assert boxes["text"]["rows"][0][1] == engine.tokenizer.decode(order[:1])


def test_its_times_are_the_record_s(widget):
    """The shares of the outermost boxes add up to all of it, and each is that of the record."""
    record = json.loads((ROOT / "benches" / "engine.json").read_text(encoding="utf-8"))
    taken = dict(record["rows"])
    boxes = widget.data()["boxes"]
    assert taken.keys() <= {box["path"] for box in every_box(boxes)}
    for which in (0, 1):
        assert sum(box["shares"][which] for box in boxes) == pytest.approx(100, abs=0.05)
    for box in every_box(boxes):
        inside = sum(ms for path, ms in taken.items() if f"{path}/".startswith(f"{box['path']}/"))
        assert box["shares"][1] == pytest.approx(100 * inside / sum(taken.values()), abs=0.0051)
    assert record["machine"]["processor"] in widget.data()["measured"]


@pytest.mark.parametrize("_", range(3))
def test_by_keyboard(page, widget, _):
    assert widget.state()["level"] == [box["name"] for box in widget.data()["boxes"]]
    page.keyboard.press("Tab")
    widget.element.locator("#level button").first.focus()
    assert widget.press("ArrowRight", "ArrowRight", "Enter")["box"] == "layers"
    assert widget.press("ArrowRight", "Enter")["box"] == "layers/attention"  # the focus is on the first in it
    steps = widget.state()["level"].index("GQA")  # however many boxes a week puts before it
    state = widget.press(*["ArrowRight"] * steps, "Enter")
    assert state["box"] == "layers/attention/GQA"
    state = widget.press("ArrowRight", "ArrowRight", "Enter")
    assert (state["box"], state["frame"]) == ("layers/attention/GQA/softmax", "layers/attention/GQA")
    assert widget.said().startswith("softmax, layer 3, head 0: ")
    widget.focus("[name=head]")
    assert widget.press("ArrowDown")["head"] == 1
    widget.focus("#level [aria-pressed=true]")
    assert widget.press("Escape")["box"] == "layers/attention"
    assert widget.press("Escape", "Escape", "Escape")["box"] == ""
    assert page.url == widget.address


def test_by_mouse(widget):
    widget.element.locator("#level button", has_text="layers").click()
    widget.element.locator(".slab").nth(1).click()
    assert (widget.state()["box"], widget.state()["layer"]) == ("layers", 1)
    widget.element.locator("[data-path='layers/MLP']").click()
    assert widget.state()["level"] == ["gate, up", "silu", "down"]
    widget.element.locator("#panel tr[data-row]").nth(2).click()
    assert widget.state()["row"] == 2
    widget.element.locator(".crumbs button").first.click()
    assert widget.state()["frame"] == ""


@pytest.mark.parametrize("width", [390, 1280])
def test_next_goes_through_all_boxes(widget, width):
    """In the order of the data, from the tokens to the text, and at one height."""
    leaves = [box["path"] for box in every_box(widget.data()["boxes"]) if not box["parts"]]
    seen, heights = [], set()
    for _ in leaves:
        widget.element.locator("#next").click()
        seen.append(widget.state()["box"])
        heights.add(widget.element.evaluate("(element) => element.offsetHeight"))
    assert seen == leaves
    assert len(heights) == 1
    assert widget.element.locator("#next").get_attribute("aria-disabled") == "true"


def test_heights_are_shares(widget):
    """Of the weights or of the time; those without any are as high as their text."""
    boxes = {box["path"]: box for box in every_box(widget.data()["boxes"])}
    heights = """e => Object.fromEntries([...e.shadowRoot.querySelectorAll(".layer .box.full")].map((box) =>
        [box.querySelector("button").dataset.path, parseFloat(box.style.getPropertyValue("--h"))]))"""
    for of in (0, 1):
        widget.change(of=of)
        shown = widget.element.evaluate(heights)
        assert {"layers/MLP/gate, up", "layers/attention/output"} <= shown.keys()
        for path, height in shown.items():
            assert height == pytest.approx(max(26, 12.5 * boxes[path]["shares"][of] / 6), abs=0.1)


def test_what_is_shown_is_what_is_chosen(widget):
    """In each layer and head: the numbers of the token that is followed, in words."""
    for layer, head in HEADS[::7]:
        state = widget.change(box="layers/attention/GQA/softmax", layer=layer, head=head, row=2)
        text = widget.element.locator(".numbers .mono").inner_text()
        assert text == ", ".join(f"{x:.2f}" for x in state["shown"][0]["values"][2][:3]) + ", hidden, hidden"


def test_its_links_lead_to_the_tasks(page, widget):
    widget.change(box="layers/attention/RoPE")
    widget.element.locator("#panel a").click()
    page.wait_for_url("**/week1/day2.html#task-1-2-2")
