"""The page of `pdm run attention --html` in a real browser: by keyboard, light and dark, with no request elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.commands.attention.pictures import page as page_of
from tiny_llm_course.engine.attention_maps import AttentionMaps

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request

pytestmark = pytest.mark.of_the_course
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
TOKENS = ("That", " is", " a", " blue", " dog")


def some_looks() -> AttentionMaps:
    """Two layers of three heads, drawn."""
    scores = np.random.default_rng(1).standard_normal((2, 3, 5, 5))
    weights = np.tril(np.exp(2 * scores))
    return AttentionMaps(TOKENS, (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32), mx.zeros((5, 1)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_every_head_by_keyboard(browser: "Browser", tmp_path: Path, scheme: str, width: int) -> None:
    looks, file, problems = some_looks(), tmp_path / "heads.html", []
    file.write_text(page_of(looks, "That is a blue dog", "a model", (1, 2)), encoding="utf-8")

    def stay_here(request: "Request") -> None:
        if request.url != file.as_uri():
            problems.append(f"a request: {request.url}")

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    context.on("request", stay_here)
    page = context.new_page()
    page.on("console", lambda said: problems.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.goto(file.as_uri())

    def shows(layer: int, head: int) -> None:
        assert page.inner_text("#which") == f"Layer {layer}, head {head}"
        rows = [
            [cell.inner_text() for cell in row.query_selector_all("td")]
            for row in page.query_selector_all("#one tbody tr")
        ]
        expected = looks.weights[layer, head]
        assert rows == [[f"{expected[i, j]:.2f}" if j <= i else "" for j in range(5)] for i in range(5)]
        assert page.locator('#all button[aria-pressed="true"]').count() == 1

    shows(1, 2)
    page.keyboard.press("Tab")
    for key, layer, head in (
        ("Home", 0, 0), ("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("ArrowLeft", 1, 0), ("ArrowDown", 1, 0),
        ("ArrowUp", 0, 0), ("ArrowLeft", 0, 0), ("End", 1, 2),
    ):  # fmt: skip
        page.keyboard.press(key)
        shows(layer, head)
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Layer {layer}, head {head}"
    page.click('[aria-label="Layer 0, head 2"]')
    shows(0, 2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.add_script_tag(content=AXE)
    faults = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)")
    assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in faults] == []
    context.close()
    assert problems == []
