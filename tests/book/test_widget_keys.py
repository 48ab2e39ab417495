"""Every widget without a mouse. Each test is repeated: a lost key may be lost only now and then."""

import math

import pytest
from tests.book.widget import Widget

from tiny_llm_course.dev.book.html import number


@pytest.mark.parametrize("_", range(5))
def test_attention_by_keyboard(page, _):
    widget = Widget(page, "attention-stepper")
    widget.focus("#next")
    assert widget.press("Enter")["step"] == 1
    assert widget.press("Space")["step"] == 2
    assert widget.press("ArrowRight", "ArrowRight", "ArrowRight")["step"] == 4
    assert "output" in widget.said()
    assert widget.press("ArrowLeft")["step"] == 3
    assert widget.press("Home", "ArrowLeft")["step"] == 0
    assert widget.press("End", "Enter")["step"] == 4
    widget.focus("#cells")
    assert widget.press("ArrowRight", "ArrowRight", "ArrowRight")["column"] == 6  # a feature of the output
    widget.focus("#back")
    assert widget.press("Enter")["step"] == 3
    widget.focus("#cells")
    state = widget.press("ArrowUp", "ArrowLeft", "ArrowLeft")
    assert (state["row"], state["column"]) == (3, 2)  # of five keys, from the last
    assert widget.press("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")["row"] == 0
    widget.focus("select")
    assert widget.press("ArrowDown")["row"] == 1
    widget.focus("[name=causal]")
    assert not widget.press("Space")["causal"]
    assert page.url == widget.address


def test_attention_by_mouse(page):
    widget = Widget(page, "attention-stepper")
    widget.element.locator("#cells tbody tr").nth(4).locator("td").nth(0).click()
    assert (widget.state()["row"], widget.state()["column"]) == (4, 0)
    widget.element.locator("#cells thead td").click()  # the empty corner
    assert (widget.state()["row"], widget.state()["column"]) == (4, 0)
    widget.change(step=4)
    widget.element.locator("#cells tbody tr").nth(1).locator("td").click()
    state = widget.state()
    assert (state["row"], state["column"] in (31, 32)) == (1, True)  # in the middle of 64


@pytest.mark.parametrize("_", range(5))
def test_the_atlas_by_keyboard(page, _):
    widget = Widget(page, "head-atlas")
    assert (widget.state()["layer"], widget.state()["head"]) == (3, 0)
    widget.focus("#maps")
    state = widget.press("ArrowRight", "ArrowRight", "ArrowUp")
    assert (state["layer"], state["head"]) == (2, 2)
    assert widget.press(*["ArrowDown"] * 9)["layer"] == 5
    widget.focus("[name=head]")
    assert widget.press("ArrowUp")["head"] == 1
    widget.focus("[value=weights]")
    assert widget.press("ArrowUp")["what"] == "masked"
    assert page.url == widget.address


def test_the_atlas_by_mouse(page):
    widget = Widget(page, "head-atlas")
    widget.element.locator(".map").nth(13).click()
    assert (widget.state()["layer"], widget.state()["head"]) == (2, 1)


@pytest.mark.parametrize("_", range(5))
def test_steps_by_keyboard(page, _):
    widget = Widget(page, "box-steps")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowRight")["step"] == 3
    assert widget.press("ArrowLeft", "Shift+Tab", "Enter")["step"] == 1
    widget.focus("[name=choice]")
    state = widget.press("ArrowDown")
    assert (state["choice"], state["step"]) == (1, 0)
    assert page.url == widget.address


@pytest.mark.parametrize("_", range(5))
def test_norm_and_gate_by_keyboard(page, _):
    widget = Widget(page, "norm-gate")
    widget.focus("[name=token]")
    state = widget.press("ArrowUp")
    assert (state["token"], state["gate"]) == (2, 0)
    assert widget.press("Tab", "ArrowRight")["power"] == 1
    assert widget.press("Tab", "End")["eps"] == -1
    assert "eps is no longer small" in widget.said()
    assert widget.press("Tab", "Home")["gate"] == -10
    assert page.url == widget.address


@pytest.mark.parametrize("_", range(5))
def test_depth_by_keyboard(page, _):
    widget = Widget(page, "depth-words")
    assert (widget.state()["sentence"], widget.state()["position"]) == (0, 4)
    widget.focus("[name=position]")
    assert widget.press("ArrowUp")["position"] == 3
    assert widget.press("Shift+Tab", "ArrowDown")["sentence"] == 1
    assert widget.state()["position"] == len(widget.data()["sentences"][1]["tokens"]) - 1
    assert page.url == widget.address


@pytest.mark.parametrize("_", range(5))
def test_rope_by_keyboard(page, _):
    widget = Widget(page, "rope-rotation")
    before = widget.state()["score"]
    widget.focus("#on")
    state = widget.press("Enter", "Enter", "Space")
    assert (state["query"], state["key"]) == (7, 6)
    assert state["score"] == pytest.approx(before)
    assert widget.press("Shift+Tab", "Enter")["query"] == 6
    widget.focus("#query")
    state = widget.press("ArrowLeft", "ArrowLeft")
    assert (state["query"], state["key"]) == (4, 5)
    assert state["score"] == pytest.approx(before)  # the same vector on both sides: the sign does not count
    assert widget.press("End")["query"] == 15
    widget.focus("#on")
    assert widget.press("Enter")["query"] == 15  # at the end of its way, and still focused
    assert widget.element.locator("#on").get_attribute("aria-disabled") == "true"
    assert widget.press("Shift+Tab", "Enter")["query"] == 14
    widget.focus("[value=neighbors]")
    assert widget.press("ArrowDown")["layout"] == "halves"
    assert page.url == widget.address


def on_screen(part):
    """Where it is, once it is in the middle of the window."""
    part.evaluate("part => part.scrollIntoView({ block: 'center', behavior: 'instant' })")
    return part.bounding_box()


@pytest.mark.parametrize(
    ("hand", "pair", "turns", "wanted"),
    [
        ("query", 0, [1.0, 1.0, 0.8], 7),
        ("key", 0, [-1.0], 2),
        ("key", 0, [-1.0] * 5, 0),  # and no further
        ("query", 0, [1.0] * 9 + [-1.0], 12),  # more than once round, and back
        ("query", 1, [0.35, 0.27], 10),
        ("query", 1, [1.0] * 3, 15),
    ],
)
def test_rope_s_hands_can_be_turned(page, hand, pair, turns, wanted):
    """The position follows the end of the hand, and everything else the position."""
    widget = Widget(page, "rope-rotation")
    before = widget.change(query=4, key=3)
    box = on_screen(widget.element.locator("#dials"))
    scale = box["width"] / 320

    def place(angle):
        x, y = 80 + 160 * pair + 62 * math.cos(angle), 76 - 62 * math.sin(angle)
        return box["x"] + x * scale, box["y"] + y * scale

    angle = before[hand] * 100 ** (-pair / 2)
    page.mouse.move(*place(angle))
    page.mouse.down()
    for turn in turns:
        angle += turn
        page.mouse.move(*place(angle))
    page.mouse.up()
    state = widget.state()
    assert state[hand] == wanted
    other = {"query": "key", "key": "query"}[hand]
    assert state[other] == before[other]
    assert widget.element.locator(f"#{hand}").input_value() == str(wanted)
    score = math.cos(state["distance"]) + math.cos(0.1 * state["distance"])
    assert state["score"] == pytest.approx(score)
    assert widget.said().endswith(f"The score is {number(score, 4)}.")
    page.mouse.move(*place(angle + 1))  # it was let go
    assert widget.state()[hand] == wanted


def test_a_finger_turns_a_hand_and_does_not_scroll(page):
    widget = Widget(page, "rope-rotation")
    session = page.context.new_cdp_session(page)
    box = on_screen(widget.element.locator("#dials"))
    scale, scrolled = box["width"] / 320, page.evaluate("scrollY")
    for kind, angle in (
        ("touchStart", 4.0),
        ("touchMove", 4.5),
        ("touchMove", 5.0),
        ("touchMove", 6.0),
        ("touchEnd", 6),
    ):
        at = {"x": box["x"] + (80 + 62 * math.cos(angle)) * scale, "y": box["y"] + (76 - 62 * math.sin(angle)) * scale}
        points = [] if kind == "touchEnd" else [at]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function("document.querySelector('rope-rotation').state.query === 6")
    assert page.evaluate("scrollY") == scrolled


@pytest.mark.parametrize("_", range(5))
def test_gqa_by_keyboard(page, _):
    widget = Widget(page, "gqa-sharing")
    assert (widget.state()["name"], widget.state()["kvHeads"]) == ("tiny-qwen3", 2)
    widget.focus("#kv")
    assert widget.press("ArrowRight")["kvHeads"] == 3
    assert widget.press("End")["kvHeads"] == 6
    assert "multi-head" in widget.said()
    assert widget.press("Home")["kvHeads"] == 1
    assert widget.press("Shift+Tab", "ArrowDown", "ArrowDown")["name"] == "Qwen3-4B"
    assert widget.state()["kvHeads"] == 8
    assert "This is what the model has." in widget.said()
    assert widget.press("Tab", "Tab", "ArrowRight")["tokens"] == 8192
    assert page.url == widget.address


@pytest.mark.parametrize("_", range(5))
def test_the_story_by_keyboard(page, _):
    widget = Widget(page, "story-teller")
    assert not widget.state()["playing"]  # these pages are opened by somebody who wants nothing to move
    widget.focus("#next")
    assert widget.press("Enter", "Space", "ArrowRight")["step"] == 3
    assert widget.press("ArrowLeft")["step"] == 2
    widget.focus("#play")
    assert widget.press("Enter")["playing"]
    page.wait_for_function("document.querySelector('story-teller').state.step > 2")
    assert not widget.press("Enter")["playing"]
    widget.change(step=len(widget.data()["steps"]) - 1)
    assert widget.press("Enter")["step"] == 0  # from the beginning again
    assert page.url == widget.address


@pytest.mark.parametrize("_", range(5))
def test_sampling_by_keyboard(page, _):
    widget = Widget(page, "sampling-sliders")
    widget.focus("#temperature")
    assert widget.press("ArrowLeft", "ArrowLeft")["temperature"] == 0.9
    assert widget.press("Tab", "ArrowRight", "ArrowRight", "ArrowRight")["top_k"] == 3
    assert "top-k drops 2045" in widget.said()
    assert widget.press("Tab", "ArrowLeft")["top_p"] == 0.99
    assert widget.press("Tab", "End")["min_p"] == 1
    assert widget.said().startswith("Left: 1 of 2048 tokens")
    widget.press("Tab", "Tab", "Enter")
    likeliest = widget.data()["tokens"][0]
    assert widget.element.locator(".drawn").inner_text() == f"Drawn: {', '.join([likeliest] * 10)}."
    state = widget.press("Shift+Tab", "Space")
    assert (state["temperature"], state["top_k"], state["top_p"], state["min_p"]) == (1, 0, 1, 0)
    assert page.url == widget.address
