"""The copy button: of a session, what a learner can paste."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

SESSION = ["import", "from", "mx.random", "vectors", "for sentence in", "    words =", "    x =", "    print(", ""]
CODE = ["class RoPE:", '    """Rotates', "    by", "", "    def"]


@pytest.mark.parametrize(
    ("address", "listing", "starts"),
    [
        ("week1/day2.html", ">>> for sentence", SESSION),
        ("week1/overview.html", "$ pdm run test 1.1.1 1.1.2", ["pdm run"] * 7),
        ("week1/overview.html", "pdm run chat --solution", ["pdm run"] * 3),
        ("week1/day2.html", "class RoPE:", CODE),
    ],
    ids=["session", "console", "commands", "code"],
)
def test_a_session_is_copied_without_prompts_and_output(
    page: "Page", address: str, listing: str, starts: list[str]
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    block = page.locator("pre", has_text=listing).first
    block.hover()
    block.locator(".clip-button").click()
    block.locator(".clip-button.tooltipped").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert len(copied) == len(starts) or starts is CODE
    assert [line[: len(start)] for line, start in zip(copied, starts, strict=False)] == starts
