"""What holds for every widget of the book, and for the engine's map."""

import re

import pytest
from tests.book.contrast import FAINT
from tests.book.widget import WIDGETS, Widget

from tiny_llm_course.paths import BOOK

every_widget = pytest.mark.parametrize("name", WIDGETS)


# What stands in a widget's place in print and without JavaScript.
STILL = ":is(.table-wrapper, figure, details)"
# Views that show every color a widget has.
VIEWS = {
    "attention-stepper": [{"step": step} for step in range(5)],
    "head-atlas": [{"layer": 3, "head": 1, "what": what} for what in ("scores", "masked", "weights")],
    "box-steps": [{"choice": choice, "step": 1} for choice in (0, 2)],
    "depth-words": [{"sentence": 1, "position": 0}, {"sentence": 0, "position": 4}],
    "norm-gate": [{"token": 1, "gate": -4}, {"token": 2, "power": -4}, {"token": 3, "power": 2, "gate": 6}],
    "rope-rotation": [{"layout": "halves", "query": 4, "key": 4}, {"layout": "neighbors", "query": 15, "key": 0}],
    "roof-line": [{}, {"machine": 2, "model": 1, "batch": 9, "bits": 4}],
    "quant-levels": [{}, {"scale": 0.012, "bias": -0.08}],
    "online-softmax": [{"step": 0}, {"step": 2}, {"step": 1, "hidden": True}, {"step": 3, "stale": True}],
    "register-tile": [{"step": 0}, {"step": 3, "tokens": 7}, {"step": 8, "kind": 2, "tokens": 12}],
    "lane-steps": [{}, {"step": 1}, {"step": 10}, {"step": 13}],
    "line-loads": [{}, {"kind": 1, "step": 3, "first": 1}],
    "split-k": [{}, {"parts": 4, "slots": 48, "step": 2}, {"parts": 3, "step": 2}],
    "draft-accept": [{"u": 0.1}, {"u": 0.99, "mix": -1}],
    "fused-layouts": [{}, {"stored": 0, "split": 1}, {"stored": 0, "split": 0}],
    "mask-editor": [{}, {"full": 1, "changed": [15]}, {"causal": False, "side": 1, "full": 2, "padding": 5}],
    "cache-bytes": [{}, {"model": 2, "share": 1}],
    "rolling-cache": [{}, {"kind": 0}, {"kind": 1, "chunk": 6, "step": 2}],
    "expert-load": [{}, {"sentence": 8, "k": 1, "step": 20}],
    "bpe-merges": [{}, {"step": 3}, {"corpus": 1, "step": 2}, {"corpus": 2, "step": 20}],
    "packed-rows": [{}, {"masked": False}, {"a": 1, "d": 10, "length": 12, "token": 11}],
    "adamw-ravine": [{}, {"step": 0}, {"step": 60, "scale": 2, "decay": 2}],
    "scaling-fit": [{}, {"run0": False, "at": 0}, {"run0": False, "run1": False, "run2": False}],
    "lora-rank": [{}, {"matrix": 2, "rank": 64, "alpha": 1}],
    "ring-steps": [{}, {"step": 2}, {"step": 6}, {"order": 1, "step": 1}],
    "race-steps": [{}, {"step": 1}, {"program": 2, "attack": 1, "moment": 4, "step": 99}],
    "group-advantage": [{}, {"chosen": 3, "ratio": 0.5}],
    "bootstrap-mean": [{}, {"step": 0}, {"kind": "unpaired", "step": 200}],
    "grammar-steps": [{}, {"step": 9}, {"step": 36}],
    "agent-run": [{}, {"step": 8}, {"run": 1, "step": 4}, {"run": 3, "step": 9}],
    "router-steps": [{}, {"second": 99, "victim": 0, "killed": 6}, {"policy": 0, "second": 3}],
    "resume-steps": [{}, {"step": 3}, {"moment": 9, "step": 99}],
    "fleet-load": [{}, {"rate": 80}, {"rate": 5, "replicas": 1}],
    "call-stream": [{}, {"step": 30}, {"answer": 1, "step": 400}, {"answer": 3, "step": 90}],
    "rank-shards": [{}, {"ranks": 2, "step": 4}, {"ranks": 4}, {"model": 1, "ranks": 16, "step": 7}],
    "pass-power": [{}, {"agent": 1, "k": 8}, {"agent": 2, "k": 4}],
    "rope-scaling": [{}, {"kind": "YaRN", "factor": 5}, {"kind": "NTK-aware", "pair": 31}],
    "shared-layers": [{}, {"order": 2, "layers": 12, "step": 11}, {"sets": 6, "step": 0}],
    "scheduler-replay": [{}, {"policy": 2, "other": 3, "budget": 2, "pages": 1}, {"step": 5}],
    "pipeline-slots": [{}, {"order": 1, "stages": 6, "micro": 16}, {"stages": 4, "micro": 8, "time": 12}],
    "queue-limit": [{}, {"limit": 0, "second": 40}, {"arrivals": 2, "limit": 4}],
    "prefix-tree": [{}, {"actions": [["admit", 0], ["admit", 1]]}, {"actions": [["admit", 0], ["finish", 0]]}],
    "gqa-sharing": [{"kv_heads": heads} for heads in (1, 2, 6)],
    "model-zoom": [{}, {"box": "layers/attention/RoPE"}, {"box": "layers/attention/GQA/softmax"}, {"box": "sampler"}],
    "kv-cache": [{"length": 16}, {"length": 200, "cached": True}],
    "story-teller": [{"step": 0}, {"step": 20}],
    "sampling-sliders": [{}, {"temperature": 0}, {"top_k": 3}],
}


@every_widget
@pytest.mark.parametrize("width", [375])
def test_it_fits_a_phone(page, name, width):
    fits(page, Widget(page, name))


@every_widget
def test_it_fits_the_page_and_paper_stands_out_and_keeps_its_keys(page, name):
    widget = Widget(page, name)
    fits(page, widget)
    gives_way_on_paper(page, widget)
    keeps_its_keys(page, widget)
    stands_out(page, widget)


def fits(page, widget):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    frame = widget.element.locator(".live").bounding_box()
    assert frame["x"] >= 0
    assert frame["x"] + frame["width"] <= page.viewport_size["width"]


def gives_way_on_paper(page, widget):
    """Its children stand in for it."""
    live = widget.element.locator(".live")
    page.emulate_media(media="print")
    assert not live.is_visible()
    assert page.locator(f"{widget.name} > {STILL}").first.is_visible()
    page.emulate_media(media="screen")
    assert live.is_visible()


def keeps_its_keys(page, widget):
    """Each control has a name, and mdBook neither turns the page nor opens its search while one has the focus."""
    controls = widget.element.locator("button, select, input, [tabindex='0']")
    for control in controls.all():
        control.focus()
        for key in ("ArrowRight", "ArrowLeft", "s", "/", "?"):
            page.keyboard.press(key)
        snapshot = control.aria_snapshot()
        assert '"' in snapshot.splitlines()[0], snapshot
    assert page.url == widget.address
    assert not page.locator("#mdbook-search-wrapper:not(.hidden)").count()


def stands_out(page, widget):
    """Numbers from the shade of their cell, text and lines of a drawing from what is under them; in each theme."""
    for view in VIEWS[widget.name]:
        widget.change(**view)
        for theme in ("light", "rust", "coal", "navy", "ayu"):
            page.evaluate("theme => { document.documentElement.className = `js ${theme}`; }", theme)
            assert not page.evaluate(FAINT), (view, theme)


@every_widget
def test_without_javascript_there_is_a_still(browser, book_url, name):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 375, "height": 800})
    page = context.new_page()
    page.goto(book_url + WIDGETS[name])
    still = page.locator(f"{name} > {STILL}").first
    assert still.is_visible()
    assert still.bounding_box()["width"] <= 375
    context.close()


def test_every_widget_is_on_a_page():
    scripts = {file.stem for file in (BOOK / "src" / "widgets").glob("*.js")}
    assert scripts - {"common", "mc-quiz"} == set(WIDGETS)


# The engine's map, which needs no script


@pytest.mark.parametrize("width", [375, 1280])
def test_the_map_fits_the_page(page):
    page.goto("week1/day3.html")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for box in page.locator(".engine-map a").all():
        place = box.bounding_box()
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= page.viewport_size["width"]


def test_the_map_lights_today_s_boxes(page):
    """Those of the open chapter; past days are ticked, and each day that makes a part of the engine has a box."""
    page.goto("week1/overview.html")
    boxes = "links => links.map(a => [a.getAttribute('href'), a.ariaCurrent, a.className, a.textContent])"
    made = {int(re.match(r"day(\d)", href)[1]) for href, *_ in page.locator(".engine-map li > a").evaluate_all(boxes)}
    assert made == set(range(1, 8))
    for day in range(1, 8):
        page.goto(f"week1/day{day}.html")
        for address, current, name, text in page.locator(".engine-map li > a").evaluate_all(boxes):
            made_on = int(re.fullmatch(r"day(\d)\.html#task-1-\1-\d", address)[1])
            assert (current == "page") == (made_on == day)
            assert name == ("done" if made_on < day else "later" if made_on > day else "")
            assert text.startswith("✓ ") == (made_on < day)
        assert page.locator(".engine-map a[aria-current]").count() >= 1


def test_the_map_s_boxes_lead_to_their_tasks_by_keyboard(page):
    page.goto("week1/overview.html")
    page.locator(".engine-map a", has_text="RoPE").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/week1/day2.html#task-1-2-2")
    page.goto("week1/day2.html")
    page.locator(".engine-map a", has_text="all its numbers").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/model.html")
